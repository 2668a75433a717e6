package capacity

import "testing"

// TestNow checks that the nodes that Fit leaves have its pods.
func TestNow(t *testing.T) {
	r, err := Fit(t.Context(), []Kind{kind(t, 3)}, []Item{item("a", 3, 4), item("b", 5, 2)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	now, err := Now(t.Context(), r.Kinded(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if now.Placed != 6 || now.PlacedMilli != r.PlacedMilli || now.Alignment != r.Alignment || len(now.Kinds) != 1 || now.Kinds[0].Nodes != 3 {
		t.Errorf("%+v, expected what Fit placed: %+v", now, r)
	}
	if now.Kinds[0].Pods != 6 || now.Kinds[0].PlacedMilli != r.PlacedMilli || now.Stranded.Free != r.Stranded.Free {
		t.Errorf("%+v, expected %+v", now.Kinds[0], r.Kinds[0])
	}
	more, err := Now(t.Context(), []Kind{named(r.Kinded()[0], "n"), named(kind(t, 2), "m")}, Options{})
	if err != nil || more.Nodes != 3 || more.Kinds[1].Pods != 0 || more.Placed != more.Kinds[0].Pods {
		t.Errorf("%+v, %v", more, err)
	}
}
