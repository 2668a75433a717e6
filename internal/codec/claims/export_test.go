package claims

// SlicesOf returns the ResourceSlices of objects in reduced form.
func SlicesOf(o *Objects) []*Slice {
	var all []*Slice
	for _, s := range o.slices {
		all = append(all, sliceOf(s, nil))
	}
	return all
}
