package view

import (
	"strings"
	"testing"
)

// TestCSVHasNoFormulas checks that a spreadsheet takes no name for a formula, and that numbers and
// other names stay as they are.
func TestCSVHasNoFormulas(t *testing.T) {
	rows := [][]string{
		{`=HYPERLINK("http://example.com")`, "+cmd", "-1+2", "@SUM(A1)", "\tx", "\rx"},
		{"-1.5", "+3", "-1e9", "default/web-0", "a=b", ""},
	}
	var out strings.Builder
	if err := WriteCSV(&out, rows); err != nil {
		t.Fatal(err)
	}
	want := `"'=HYPERLINK(""http://example.com"")",'+cmd,'-1+2,'@SUM(A1),'` + "\tx,\"'\rx\"\n" + "-1.5,+3,-1e9,default/web-0,a=b,\n"
	if out.String() != want {
		t.Errorf("written\n%q\nwant\n%q", out.String(), want)
	}
	if rows[0][1] != "+cmd" {
		t.Error("the rows of the caller changed")
	}
}
