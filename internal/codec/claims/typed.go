package claims

import resourceapi "k8s.io/api/resource/v1"

// AddClaim takes a ResourceClaim as an API server has it, with its defaults. It must not change
// afterwards.
func (o *Objects) AddClaim(c *resourceapi.ResourceClaim) {
	if o.claims == nil {
		o.claims = map[string]*resourceapi.ResourceClaim{}
	}
	o.claims[key(c.Namespace, c.Name)] = c
}

// AddSlice takes a ResourceSlice as an API server has it. It must not change afterwards.
func (o *Objects) AddSlice(s *resourceapi.ResourceSlice) { o.slices = append(o.slices, s) }
