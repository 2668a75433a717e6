package replay

// CompareKubelet compares a result of Follow with Player.Kubelet as Compare does, but compares the
// reasons of rejections literally.
func CompareKubelet(s *Scenario, got, want *Result) Comparison {
	return compare(&comparison{scenario: s.Name, event: -1, known: map[string]bool{}, exact: true}, got, want)
}
