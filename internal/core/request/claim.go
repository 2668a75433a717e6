package request

import (
	"cmp"
	"slices"
	"strings"
)

// Claim is a ResourceClaim that containers of a pod use, with its devices as the scheduler
// allocated them and the kubelet prepared them. It is kept for reports only. The devices by which
// the node decides are in Container.Given.
type Claim struct {
	// Name is the name of the ResourceClaim, in the namespace of the pod.
	Name string
	// Uses are the containers that use it, ascending by ClaimUse.Compare, each once.
	Uses []ClaimUse
	// Devices are ascending by ClaimDevice.Compare, each once. If nil, they are not known yet.
	Devices []ClaimDevice
}

// ClaimUse is a container that uses a claim.
type ClaimUse struct {
	Container string
	// Request is the request of the claim whose devices the container gets. If empty, it gets all
	// devices.
	Request string
}

// Compare orders uses by container and request.
func (u ClaimUse) Compare(v ClaimUse) int {
	return cmp.Or(strings.Compare(u.Container, v.Container), strings.Compare(u.Request, v.Request))
}

// ClaimDevice is a device of a claim. A value and its lists never change.
type ClaimDevice struct {
	Driver, Pool, Name string
	// ShareID is the share of the device that the claim has. If empty, the device is not shared.
	ShareID string
	// Requests are the requests of the claim for which the device was allocated, ascending: "gpu",
	// or "gpu/large" for an alternative of a request. If nil, they are not known.
	Requests []string
	// CDI are the names of its CDI devices, in their order.
	CDI []string
}

// Compare orders devices by driver, pool, name and share.
func (d *ClaimDevice) Compare(e *ClaimDevice) int {
	return cmp.Or(strings.Compare(d.Driver, e.Driver), strings.Compare(d.Pool, e.Pool),
		strings.Compare(d.Name, e.Name), strings.Compare(d.ShareID, e.ShareID))
}

// For reports whether a container that names the request gets the device. A device whose requests
// are not known matches every request.
func (d *ClaimDevice) For(request string) bool {
	return request == "" || d.Requests == nil || slices.ContainsFunc(d.Requests, func(r string) bool {
		main, _, _ := strings.Cut(r, "/")
		return main == request || r == request
	})
}

// UsedBy reports whether a container uses the claim.
func (c *Claim) UsedBy(container string) bool {
	return slices.ContainsFunc(c.Uses, func(u ClaimUse) bool { return u.Container == container })
}

// Has reports whether the claim gives the device to a container.
func (c *Claim) Has(container string, d *ClaimDevice) bool {
	return slices.ContainsFunc(c.Uses, func(u ClaimUse) bool { return u.Container == container && d.For(u.Request) })
}

// Complete reports whether other sources could add nothing: the devices are known and, if a
// container names a request, so are the requests of each device.
func (c *Claim) Complete() bool {
	named := slices.ContainsFunc(c.Uses, func(u ClaimUse) bool { return u.Request != "" })
	return c.Devices != nil && !(named && slices.ContainsFunc(c.Devices, func(d ClaimDevice) bool { return d.Requests == nil }))
}

// Ordered returns claims ascending by name. If a name occurs several times, its uses are merged,
// and its devices are those of the last entry that has any.
func Ordered(claims []Claim) []Claim {
	var out []Claim
	sorted := slices.SortedStableFunc(slices.Values(claims), func(a, b Claim) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range sorted {
		if last := len(out) - 1; last < 0 || out[last].Name != c.Name {
			out = append(out, Claim{Name: c.Name})
		}
		to := &out[len(out)-1]
		to.Uses = append(to.Uses, c.Uses...)
		if c.Devices != nil {
			to.Devices = slices.SortedFunc(slices.Values(c.Devices), func(a, b ClaimDevice) int { return a.Compare(&b) })
			to.Devices = slices.CompactFunc(to.Devices, func(a, b ClaimDevice) bool { return a.Compare(&b) == 0 })
		}
	}
	for i := range out {
		slices.SortFunc(out[i].Uses, ClaimUse.Compare)
		out[i].Uses = slices.Compact(out[i].Uses)
	}
	return out
}

// SameClaims reports whether the same is known about both lists of claims.
func SameClaims(a, b []Claim) bool {
	sameDevice := func(d, e ClaimDevice) bool {
		return d.Compare(&e) == 0 && slices.Equal(d.Requests, e.Requests) && (d.Requests == nil) == (e.Requests == nil) && slices.Equal(d.CDI, e.CDI)
	}
	return slices.EqualFunc(a, b, func(c, d Claim) bool {
		return c.Name == d.Name && slices.Equal(c.Uses, d.Uses) && (c.Devices == nil) == (d.Devices == nil) && slices.EqualFunc(c.Devices, d.Devices, sameDevice)
	})
}
