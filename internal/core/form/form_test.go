package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

type part struct {
	Name string
	Near mask.Mask
}

// every has a field of each kind.
type every struct {
	Text      string
	Texts     []string
	Known     []string
	Number    int
	Large     uint64
	Signed    int32
	Flag      bool
	Named     request.QoS
	On, Off   bool
	CPUs      cpuset.Set
	Amounts   request.Amounts
	Devices   []device.Assigned
	Ways      uint32
	Class     cache.Class
	Nested    part
	Optional  *part
	Slice     []part
	A, B      []string // two parallel lists
	Converted *int
}

type row struct{ a, b *string }

var parts = Object[part]{
	Text("name", func(p *part) *string { return &p.Name }),
	Nodes("near", func(p *part) *mask.Mask { return &p.Near }),
}

var table = Object[every]{
	Text("text", func(v *every) *string { return &v.Text }),
	Texts("texts", func(v *every) *[]string { return &v.Texts }),
	Known(Texts("known", known), known),
	Number("number", func(v *every) *int { return &v.Number }).Always(),
	Number("large", func(v *every) *uint64 { return &v.Large }),
	Signed("signed", func(v *every) *int32 { return &v.Signed }),
	Flag("flag", func(v *every) *bool { return &v.Flag }),
	Named("named", Names[request.QoS]{{request.BestEffort, ""}, {request.Guaranteed, "guaranteed"}}, func(v *every) *request.QoS { return &v.Named }),
	Options("options", Switches[every]{{"on", func(v *every) *bool { return &v.On }}, {"off", func(v *every) *bool { return &v.Off }}}),
	CPUs("cpus", func(v *every) *cpuset.Set { return &v.CPUs }),
	Amounts("amounts", func(v *every) *request.Amounts { return &v.Amounts }),
	Devices("devices", func(v *every) *[]device.Assigned { return &v.Devices }),
	Ways("ways", func(v *every) *uint32 { return &v.Ways }),
	Class("class", func(v *every) *cache.Class { return &v.Class }),
	Nested("nested", parts, func(v *every) *part { return &v.Nested }),
	Optional("optional", parts, func(v *every) **part { return &v.Optional }),
	Slice("slice", parts, func(v *every) *[]part { return &v.Slice }, func(before, p *part) bool { return before == nil || before.Name < p.Name }),
	(&List[every, row]{
		Name: "rows", Indent: "\n ", Members: Object[row]{
			Text("a", func(r *row) *string { return r.a }), Text("b", func(r *row) *string { return r.b }),
		},
		Len: func(v *every) int { return len(v.A) },
		At:  func(v *every, i int) *row { return &row{&v.A[i], &v.B[i]} },
		Add: func(v *every) { v.A, v.B = append(v.A, ""), append(v.B, "") },
		Who: func(r *row) string { return "row " + *r.a },
	}).Field(),
	Through(Number("converted", func(n *int) *int { return n }), func(v *every) int {
		if v.Converted == nil {
			return 0
		}
		return *v.Converted
	}, func(v *every, n int) { v.Converted = &n }),
}

func known(v *every) *[]string { return &v.Known }

const full = `{"text":"a\u0001\"\\é<","texts":["b",""],"known":["c"],"number":1,"large":18446744073709551615,"signed":-3,"flag":true,"named":"guaranteed",` +
	`"options":["off"],"cpus":"0-2,5","amounts":{"hugepages-2Mi":0,"memory":7},"devices":{"gpu":["g0","g1"],"nic":[]},"ways":"0,31","class":[{"l3":0,"ways":"4-7","bandwidth":20},{"l3":2,"bandwidth":100}],"nested":{"near":[0,63]},` +
	`"optional":{},"slice":[{"name":"p"},{"name":"q","near":[1]}],"rows":[` + "\n" + ` {"a":"x","b":"y"},` + "\n" + ` {"b":"z"}],"converted":8}`

func TestEveryKind(t *testing.T) {
	eight := 8
	want := every{
		Text: "a\x01\"\\é<", Texts: []string{"b", ""}, Known: []string{"c"}, Number: 1, Large: 1<<64 - 1, Signed: -3, Flag: true, Named: request.Guaranteed, Off: true,
		CPUs: cpuset.Of(0, 1, 2, 5), Amounts: request.Amounts{{Resource: "hugepages-2Mi"}, {Resource: "memory", Value: 7}},
		Devices: []device.Assigned{{Resource: "gpu", IDs: []string{"g0", "g1"}}, {Resource: "nic", IDs: []string{}}},
		Ways:    1 | 1<<31, Class: cache.Class{{Cache: 0, Ways: 0xf0, Bandwidth: 20}, {Cache: 2, Bandwidth: 100}}, Nested: part{Near: mask.Of(0, 63)},
		Optional: &part{}, Slice: []part{{Name: "p"}, {"q", mask.Of(1)}}, A: []string{"x", ""}, B: []string{"y", "z"}, Converted: &eight,
	}
	for text, want := range map[string]every{full: want, `{"number":0}`: {}, `{"known":[],"number":0}`: {Known: []string{}}} {
		var got every
		if err := table.Read([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("read %s as\n%+v, %v, expected\n%+v", text, got, err, want)
		}
		b, err := table.Append([]byte("before "), &want)
		if err != nil || string(b) != "before "+text {
			t.Errorf("wrote\n%s, %v, expected\n%s", b, err, text)
		}
	}
	for v, i := reflect.ValueOf(want), 0; i < v.NumField(); i++ {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "On" {
			t.Errorf("%s is empty: give it a value here", name)
		}
	}
}

// TestOtherSpellings checks what Read accepts beside the bytes that Append writes.
func TestOtherSpellings(t *testing.T) {
	for text, want := range map[string]every{
		" { \"NUMBER\" : 2 }\n":                         {Number: 2},
		`{"number":1,"number":2,"text":"\u0061"}`:       {Number: 2, Text: "a"},
		`{"text":null,"slice":null,"optional":{}}`:      {Optional: &part{}},
		`{"amounts":{"b":1,"a":2},"cpus":"1,0"}`:        {Amounts: request.Amounts{{Resource: "a", Value: 2}, {Resource: "b", Value: 1}}, CPUs: cpuset.Of(0, 1)},
		`{"devices":{"b":["x"],"a":null,"b":["y"]}}`:    {Devices: []device.Assigned{{Resource: "a"}, {Resource: "b", IDs: []string{"y"}}}},
		`{"slice":[ {"near":[ 1 , 0 ] } ],"flag":true}`: {Slice: []part{{Near: mask.Of(0, 1)}}, Flag: true},
	} {
		var got every
		if err := table.Read([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("read %s as\n%+v, %v, expected\n%+v", text, got, err, want)
		}
	}
}

func TestReadErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"warp":1}`:                 `unknown: it has a member "warp" that this one does not know`,
		`{"nested":{"warp":1}}`:      `unknown: it has a member "warp" that this one does not know`,
		`{"named":"warp"}`:           `unknown: it has a value "warp" that this one does not know`,
		`{"options":["on","warp"]}`:  `unknown: it has an option "warp" that this one does not know`,
		`{"text":7}`:                 "member text is 7, expected a string",
		`{"texts":"x"}`:              `member texts is "x", expected a list`,
		`{"number":1e2}`:             "member number is 1e2, expected a whole number in its range",
		`{"large":-1}`:               "member large is -1, expected a whole number in its range",
		`{"signed":2147483648}`:      "member signed is 2147483648, expected a whole number in its range",
		`{"flag":"true"}`:            `member flag is "true", expected true or false`,
		`{"cpus":"2-1"}`:             "2-1",
		`{"ways":"30-32"}`:           "way 32 of a cache is outside 0..31",
		`{"class":[{"ways":"x"}]}`:   "x",
		`{"nested":{"near":[64]}}`:   "NUMA node 64 is outside 0..63",
		`{"nested":[]}`:              "member nested is [], expected an object",
		`{"rows":[{"a":"x","b":1}]}`: "member b is 1, expected a string in row x",
		`[]`:                         "is [], expected an object",
		`{"text":"a"`:                "unexpected end of JSON input",
		`{}{}`:                       "invalid character '{' after top-level value",
		``:                           "unexpected end of JSON input",
	} {
		var got every
		err := table.Read([]byte(text), &got)
		what, unknown := strings.CutPrefix(want, "unknown: ")
		if err == nil || !strings.Contains(err.Error(), what) || errors.Is(err, ErrUnknown) != unknown {
			t.Errorf("%s: %v, expected %s", text, err, want)
		}
	}
}

func TestAppendErrors(t *testing.T) {
	for want, v := range map[string]every{
		"text":    {Text: "\xff"},
		"texts":   {Texts: []string{"\xff"}},
		"number":  {Number: -1},
		"named":   {Named: request.Burstable},
		"amounts": {Amounts: request.Amounts{{Resource: "b"}, {Resource: "a"}}},
		"devices": {Devices: []device.Assigned{{Resource: "a"}, {Resource: "a"}}},
		"slice":   {Slice: []part{{Name: "b"}, {Name: "a"}}},
		"class":   {Class: cache.Class{{Cache: 1, Ways: 1}, {Cache: 0, Ways: 1}}},
		"name":    {Optional: &part{Name: "\xff"}},
	} {
		if b, err := table.Append([]byte("before"), &v); err == nil || !strings.HasPrefix(err.Error(), want+` "`) || string(b) != "before" {
			t.Errorf("%s: wrote %s, error %v", want, b, err)
		}
	}
}

// TestClassErrors checks that a class that no state has is not written, and that the error is the
// same for classes that were read.
func TestClassErrors(t *testing.T) {
	for text, class := range map[string]cache.Class{
		`{"class":[{"l3":0,"ways":"0,2"}]}`:                       {{Ways: 5}},
		`{"class":[{"l3":0}]}`:                                    {{}},
		`{"class":[{"l3":0,"bandwidth":101}]}`:                    {{Bandwidth: 101}},
		`{"class":[{"l3":0,"bandwidth":-1}]}`:                     {{Bandwidth: -1}},
		`{"class":[{"l3":-1,"ways":"0"}]}`:                        {{Cache: -1, Ways: 1}},
		`{"class":[{"l3":1,"ways":"0"},{"l3":1,"ways":"1"}]}`:     {{Cache: 1, Ways: 1}, {Cache: 1, Ways: 2}},
		`{"class":[{"l3":1,"ways":"0"},{"l3":0,"bandwidth":50}]}`: {{Cache: 1, Ways: 1}, {Bandwidth: 50}},
	} {
		var got every
		err := table.Read([]byte(text), &got)
		if err == nil {
			if !got.Class.Equal(class) {
				t.Errorf("read %s as %v", text, got.Class)
			}
			_, err = table.Append(nil, &got)
		}
		if err == nil {
			t.Errorf("%s is read and written", text)
		}
		if b, err := table.Append(nil, &every{Class: class}); err == nil {
			t.Errorf("wrote %s", b)
		}
	}
}

// FuzzRead checks that Read never panics, that what it reads and Append writes is read again as the
// same, and that it reads no text that encoding/json does not read as an object.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{full, `{"a":[[{}]],"text":"\ud800"}`, `null`, `{"slice":[null,{}]}`, `{"devices":{"":[""]},"amounts":{"x":null}}`, `{"texts":["\\\"",`, `{"class":[{"l3":0,"ways":"0-31"},{"l3":0,"ways":"40"}],"ways":"31"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var v, again every
		if err := table.Read(data, &v); err != nil {
			return
		}
		var members map[string]any
		if err := json.Unmarshal(data, &members); err != nil {
			t.Fatalf("read %q: %v", data, err)
		}
		written, err := table.Append(nil, &v)
		if err != nil {
			return // It was in another order, or negative.
		}
		if err := table.Read(written, &again); err != nil {
			t.Fatalf("%v, wrote %s", err, written)
		}
		if twice, err := table.Append(nil, &again); err != nil || !bytes.Equal(twice, written) || !json.Valid(written) {
			t.Fatalf("%v, wrote\n%s, then\n%s", err, written, twice)
		}
	})
}
