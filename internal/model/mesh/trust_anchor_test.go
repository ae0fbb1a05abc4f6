package mesh

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTrustAnchor(t *testing.T) {
	for _, a := range []TrustAnchor{{PEM: "-----BEGIN"}, {Domains: []string{"a.example"}, PEM: "-----BEGIN\nx"}, {Domains: []string{"a", "b"}, PEM: ""}, {}} {
		if diff := cmp.Diff(a, ParseTrustAnchor(a.String())); diff != "" {
			t.Errorf("%q: -written +read:\n%s", a.String(), diff)
		}
	}
}
