package nodemap_test

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"testing"

	"github.com/paddock-project/paddock/internal/ui/nodemap"
)

// rgb is a colour in linear light, from 0 to 1.
type rgb [3]float64

func parseColour(t *testing.T, text string) rgb {
	t.Helper()
	n, err := strconv.ParseUint(text, 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	var c rgb
	for i := range c {
		v := float64(n>>(16-8*i)&0xff) / 255
		if c[i] = v / 12.92; v > 0.04045 {
			c[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return c
}

func (c rgb) luminance() float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }

// contrast returns the contrast ratio of WCAG 2.
func contrast(a, b rgb) float64 {
	x, y := a.luminance(), b.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func (c rgb) through(m [3]rgb) rgb {
	var out rgb
	for i, row := range m {
		out[i] = max(0, row[0]*c[0]+row[1]*c[1]+row[2]*c[2])
	}
	return out
}

// lab returns the colour in CIE 1976 L*a*b* under D65.
func (c rgb) lab() [3]float64 {
	f := func(v float64) float64 {
		if v > 216.0/24389 {
			return math.Cbrt(v)
		}
		return (24389.0/27*v + 16) / 116
	}
	xyz := c.through([3]rgb{{0.4124, 0.3576, 0.1805}, {0.2126, 0.7152, 0.0722}, {0.0193, 0.1192, 0.9505}})
	x, y, z := f(xyz[0]/0.95047), f(xyz[1]), f(xyz[2]/1.08883)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

// sights are kinds of colour vision: full, and without red, green or blue cones, with the matrices
// of Machado, Oliveira and Fernandes (2009).
var sights = map[string][3]rgb{
	"all":          {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

// TestColours checks that dark letters are readable on the colour of every pod, and that colours
// that pods get one after the other differ for all kinds of sight. Tags distinguish other pairs.
func TestColours(t *testing.T) {
	var colours []rgb
	for _, m := range regexp.MustCompile(`\.c([0-6]) \{ fill: #([0-9a-f]{6}); \}`).FindAllStringSubmatch(nodemap.StyleSheet, -1) {
		if m[1] != strconv.Itoa(len(colours)) {
			t.Fatalf("colour %s comes after %d others", m[1], len(colours))
		}
		colours = append(colours, parseColour(t, m[2]))
	}
	if len(colours) != 7 {
		t.Fatalf("%d colours", len(colours))
	}
	ink := parseColour(t, "1a1a1a")
	for i, c := range colours {
		if k := contrast(c, ink); k < 4.5 {
			t.Errorf("letters on colour %d have a contrast of %.1f", i, k)
		}
		next := (i + 1) % len(colours)
		for name, sight := range sights {
			a, b := c.through(sight).lab(), colours[next].through(sight).lab()
			if d := math.Hypot(math.Hypot(a[0]-b[0], a[1]-b[1]), a[2]-b[2]); d < 15 {
				t.Errorf("%s: colours %d and %d are %s apart", name, i, next, fmt.Sprintf("%.0f", d))
			}
		}
	}
}
