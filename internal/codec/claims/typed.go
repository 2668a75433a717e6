package claims

import resourceapi "k8s.io/api/resource/v1"

// AddClaim adds a ResourceClaim as read from an API server, with defaults set. The caller must not
// modify it afterwards.
func (o *Objects) AddClaim(c *resourceapi.ResourceClaim) {
	if o.claims == nil {
		o.claims = map[string]*resourceapi.ResourceClaim{}
	}
	o.claims[key(c.Namespace, c.Name)] = c
}

// AddSlice adds a ResourceSlice as read from an API server. The caller must not modify it
// afterwards.
func (o *Objects) AddSlice(s *resourceapi.ResourceSlice) { o.slices = append(o.slices, s) }
