package inputs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTableRows checks that each row of a CSV file of nodes that cannot be read is named by its
// line, and that all of them are left out if the reader is to go on.
func TestTableRows(t *testing.T) {
	name := filepath.Join(t.TempDir(), "nodes.csv")
	text := "# from the inventory\nname,count,cores,memory\na,2,8,64Gi\n" +
		"b,x,8,64Gi\nc,1,,64Gi\nd,1,8\ne,1,8,64\nf,-1,8,64Gi\na,1,8,64Gi\ng,,8,64Gi\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := []string{
		`:4: count: "x": expected a whole number`,
		`:5: cores is missing: expected the number of cores of a socket, such as cores=48`,
		`:6: the row has 3 fields, the header 4`,
		`:7: memory: "64" is 64 bytes: expected an amount with a unit (did you mean 64Gi?)`,
		`:8: count: -1: expected 0 to 100000 nodes in all`,
		`:9: name: "a" is listed twice`,
	}
	if _, err := (Reader{}).Fleet(name); err == nil || err.Error() != name+wrong[0] {
		t.Errorf("%v, want %s%s", err, name, wrong[0])
	}
	f, err := (Reader{KeepGoing: true}).Fleet(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Kinds) != 2 || f.Kinds[0].Name != "a" || f.Kinds[0].Count != 2 || f.Kinds[1].Name != "g" || f.Kinds[1].Count != 1 {
		t.Errorf("the kinds are %v", f.Policies)
	}
	var left []string
	for _, note := range f.Notes {
		if rest, is := strings.CutPrefix(note, "left out: "+name); is {
			left = append(left, rest)
		}
	}
	if !slices.Equal(left, wrong) {
		t.Errorf("left out:\n%s\nwant:\n%s", strings.Join(left, "\n"), strings.Join(wrong, "\n"))
	}
}

// TestTableIsNoCSV checks that a quote that is not closed is named by the line of its row.
func TestTableIsNoCSV(t *testing.T) {
	for text, want := range map[string]string{
		"name,cores,memory\na,\"4,4Gi\nb,4,8Gi\n": "nodes.csv:2: ",
		"name,name\n": "nodes.csv:1: column name is listed twice",
		"":            "nodes.csv: it is empty",
	} {
		if _, _, err := decodeTable("nodes.csv", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
