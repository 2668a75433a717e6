package claims

// SlicesOf are the slices of objects.
func SlicesOf(o *Objects) []*Slice {
	var all []*Slice
	for _, s := range o.slices {
		all = append(all, sliceOf(s, nil))
	}
	return all
}
