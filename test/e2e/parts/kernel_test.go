package parts

import "testing"

func TestNewest(t *testing.T) {
	const mirror = `linux-image-6.12.94+deb13-cloud-amd64
linux-image-6.17.13+deb13-cloud-amd64
linux-image-6.18.5+deb13-cloud-amd64
linux-image-6.18.15+deb13-cloud-amd64
linux-image-6.18.15+deb13-cloud-amd64-unsigned
linux-image-6.18.9+deb13-amd64
linux-image-6.18.9+deb13-cloud-amd64
linux-image-7.0.4+deb13-cloud-amd64
linux-image-7.0.13+deb13-cloud-amd64
linux-image-cloud-amd64
`
	for _, c := range []struct{ series, want string }{
		{"6.18", "6.18.15+deb13-cloud-amd64"},
		{"6.12", "6.12.94+deb13-cloud-amd64"},
		{"6.1", "6.12.94+deb13-cloud-amd64"},
		{"6.19", "7.0.13+deb13-cloud-amd64"},
		{"8.0", ""},
	} {
		if got := newest(cloudReleases(mirror), c.series); got != c.want {
			t.Errorf("%s: %q, want %q", c.series, got, c.want)
		}
	}
	if got := newest([]string{"6.1.0-9-cloud-amd64", "6.1.0-56-cloud-amd64"}, "6.1"); got != "6.1.0-56-cloud-amd64" {
		t.Errorf("6.1: %q", got)
	}
}
