//go:build !race

package webuitest

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"golang.org/x/image/font/gofont/goregular"
)

const (
	// block is how many pixels in each direction become one pixel of a recorded picture, so that
	// the edges of letters, which differ between machines, are blurred.
	block = 4
	// tolerance is how much a colour of a block may differ, of 255. mostDiffer is the share of
	// blocks that may differ by more.
	tolerance, mostDiffer = 40, 0.004
)

// pictures is the directory of recorded pictures, and recordedBy has the browser that drew them.
const (
	pictures   = "testdata/pictures"
	recordedBy = pictures + "/browser.txt"
)

// Size is a width of the window with a colour scheme.
type Size struct {
	Width int
	Dark  bool
}

// Sizes are those of a laptop, a tablet and a phone, light and dark.
var Sizes = []Size{{1440, false}, {1440, true}, {768, false}, {768, true}, {390, false}, {390, true}}

// String returns a part of a file name: "768-dark".
func (s Size) String() string {
	if s.Dark {
		return fmt.Sprintf("%d-dark", s.Width)
	}
	return fmt.Sprintf("%d-light", s.Width)
}

// Open opens an address in a window of a size, with a font that is the same on every machine. Texts
// with times are not shown, because they change.
func (b *Browser) Open(s Size, url string) {
	b.t.Helper()
	scheme := "light"
	if s.Dark {
		scheme = "dark"
	}
	b.Run(
		page.SetBypassCSP(true), // The page does not allow the font.
		emulation.SetDeviceMetricsOverride(int64(s.Width), 900, 1, s.Width < 600),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}),
		chromedp.Navigate(url),
		chromedp.Evaluate(fmt.Sprintf(`(() => {
			const font = new FontFace('Recorded', 'url(data:font/ttf;base64,%s)'), style = document.createElement('style');
			style.textContent = '* { font-family: Recorded !important; caret-color: transparent !important; animation: none !important; transition: none !important; } time { visibility: hidden; }';
			document.head.append(style);
			document.fonts.add(font);
			font.load().then(() => { document.documentElement.dataset.recorded = 'yes'; });
		})()`, base64.StdEncoding.EncodeToString(goregular.TTF)), nil),
	)
	b.Await(`document.documentElement.dataset.recorded === 'yes'`)
}

// Compare compares the page with the recorded picture of that name in testdata/pictures, if the
// same version of the browser recorded it, or records it if rewrite is set. If directory is not
// empty, the page is also written there as it is, for a person to look at.
func (b *Browser) Compare(name string, rewrite bool, directory string) {
	b.t.Helper()
	b.Picture(directory, name)
	var data []byte
	b.Run(chromedp.FullScreenshot(&data, 100))
	shot, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		b.t.Fatal(err)
	}
	got, file, version := reduced(shot), filepath.Join(pictures, name+".png"), b.Text(`(navigator.userAgent.match(/Chrome\/\d+/) || ['another browser'])[0]`)
	if rewrite {
		b.record(file, got)
		if err := os.WriteFile(recordedBy, []byte(version+"\n"), 0o666); err != nil {
			b.t.Fatal(err)
		}
		return
	}
	if by, err := os.ReadFile(recordedBy); err != nil || string(bytes.TrimSpace(by)) != version {
		b.t.Logf("the pictures were recorded with %s (%v), and this is %s, which draws controls in another way: not compared", bytes.TrimSpace(by), err, version)
		return
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		b.t.Fatalf("%s was not recorded: run the test with -rewrite, and look at it", file)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	want, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		b.t.Fatal(err)
	}
	if why := differ(got, want); why != "" {
		b.t.Errorf("the page differs from %s: %s; look at it with -screenshots DIRECTORY, and run the test with -rewrite if it is right", file, why)
	}
}

func (b *Browser) record(file string, picture image.Image) {
	b.t.Helper()
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := errors.Join(encoder.Encode(&out, picture), os.MkdirAll(filepath.Dir(file), 0o777)); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, out.Bytes(), 0o666); err != nil {
		b.t.Fatal(err)
	}
}

// reduced returns a picture of the mean colours of blocks. Their lowest bits are removed, so that
// it compresses well.
func reduced(shot image.Image) *image.NRGBA {
	in := pixels(shot)
	out := image.NewNRGBA(image.Rect(0, 0, in.Rect.Dx()/block, in.Rect.Dy()/block))
	for y := range out.Rect.Dy() {
		for x := range out.Rect.Dx() {
			var sum [3]int
			for dy := range block {
				row := in.Pix[in.PixOffset(x*block, y*block+dy):]
				for i := range 4 * block {
					if i%4 < 3 {
						sum[i%4] += int(row[i])
					}
				}
			}
			mean := func(i int) uint8 { return uint8(sum[i]/(block*block)) &^ 7 }
			out.SetNRGBA(x, y, color.NRGBA{mean(0), mean(1), mean(2), 255})
		}
	}
	return out
}

// differ describes how two reduced pictures differ, or returns "".
func differ(got *image.NRGBA, want image.Image) string {
	if got.Bounds().Size() != want.Bounds().Size() {
		return fmt.Sprintf("it has %d by %d pixels, expected about %d by %d", block*got.Rect.Dx(), block*got.Rect.Dy(), block*want.Bounds().Dx(), block*want.Bounds().Dy())
	}
	wanted, differing := pixels(want), 0
	for i := 0; i < len(got.Pix); i += 4 {
		for c := range 3 {
			if d := int(got.Pix[i+c]) - int(wanted.Pix[i+c]); d > tolerance || d < -tolerance {
				differing++
				break
			}
		}
	}
	if share := float64(4*differing) / float64(len(got.Pix)); share > mostDiffer {
		return fmt.Sprintf("%.1f %% of it has other colours, at most %.1f %% may", 100*share, 100*mostDiffer)
	}
	return ""
}

// pixels returns a picture in the representation that its pixels are read in.
func pixels(p image.Image) *image.NRGBA {
	out := image.NewNRGBA(image.Rect(0, 0, p.Bounds().Dx(), p.Bounds().Dy()))
	draw.Draw(out, out.Bounds(), p, p.Bounds().Min, draw.Src)
	return out
}
