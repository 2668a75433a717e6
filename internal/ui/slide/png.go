package slide

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

// PNG writes the picture as PNG.
func (p *Picture) PNG(out io.Writer) error {
	img := image.NewRGBA(image.Rect(0, 0, Width, Height))
	draw.Draw(img, img.Bounds(), paper.image(), image.Point{}, draw.Src)
	for _, r := range p.rects {
		fill(img, r)
	}
	for _, l := range p.labels {
		face, err := faceOf(l.size, l.bold)
		if err != nil {
			return err
		}
		x := fixed.Int26_6(l.x * 64)
		switch width := font.MeasureString(face, l.text); l.at {
		case left:
		case middle:
			x -= width / 2
		case right:
			x -= width
		}
		d := font.Drawer{Dst: img, Src: l.colour.image(), Face: face, Dot: fixed.Point26_6{X: x, Y: fixed.Int26_6(l.y * 64)}}
		d.DrawString(l.text)
	}
	return png.Encode(out, img)
}

// fill fills a rectangle. Its edges are rounded to whole pixels, and it is at least one pixel wide
// and high.
func fill(img *image.RGBA, r rect) {
	x, y := int(math.Round(r.x)), int(math.Round(r.y))
	to := image.Rect(x, y, max(x+1, int(math.Round(r.x+r.w))), max(y+1, int(math.Round(r.y+r.h))))
	draw.Draw(img, to, r.fill.image(), image.Point{}, draw.Src)
}

func (t tone) image() *image.Uniform {
	c := colours[t]
	return image.NewUniform(color.RGBA{uint8(c >> 16), uint8(c >> 8), uint8(c), 0xff}) //nolint:gosec // Each is one byte of the colour.
}

// measure returns the width of a text in pixels, as PNG draws it. The fonts of an SVG viewer can be
// narrower or wider by some percent.
func measure(text string, size float64, bold bool) float64 {
	face, err := faceOf(size, bold)
	if err != nil {
		return 0 // PNG reports it.
	}
	return float64(font.MeasureString(face, text)) / 64
}

type faceKey struct {
	size float64
	bold bool
}

// faces has the fonts in the sizes that were used. A face is not safe for concurrent use, but a
// program draws only one picture at a time.
var faces = struct {
	mu sync.Mutex
	by map[faceKey]font.Face
}{by: map[faceKey]font.Face{}}

func faceOf(size float64, bold bool) (font.Face, error) {
	faces.mu.Lock()
	defer faces.mu.Unlock()
	key := faceKey{size, bold}
	if face := faces.by[key]; face != nil {
		return face, nil
	}
	data := goregular.TTF
	if bold {
		data = gobold.TTF
	}
	parsed, err := opentype.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("font: %w", err)
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: size, DPI: 72, Hinting: font.HintingFull})
	if err != nil {
		return nil, fmt.Errorf("font: %w", err)
	}
	faces.by[key] = face
	return face, nil
}
