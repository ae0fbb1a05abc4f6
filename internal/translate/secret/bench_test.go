package secret

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// sizes runs f for meshes of many Secrets, all of which a gateway requests.
func sizes(b *testing.B, f func(b *testing.B, v *view.View, names []string)) {
	a, key := newAuthority("root"), pki.NewKey()
	data := map[string]string{"tls.crt": a.leaf(key, longAgo, farOff), "tls.key": pkcs8(key)}
	for _, n := range []int{1000, 10000} {
		var text strings.Builder
		names := make([]string, n)
		for i := range names {
			name := fmt.Sprintf("cert-%05d", i)
			text.WriteString(manifest("Secret", "ingress", name, data))
			names[i] = "kubernetes://" + name
		}
		v := fixture.New(b, []byte(text.String()), nil).View(fixture.Proxy(
			b,
			[]byte("{type: router, namespace: ingress}"),
		))
		b.Run(fmt.Sprintf("secrets=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			f(b, v, names)
		})
	}
}

// BenchmarkNamedFirst measures the first gateway that requests every secret, BenchmarkNamedAgain
// every further one.
func BenchmarkNamedFirst(b *testing.B) {
	sizes(b, func(b *testing.B, v *view.View, names []string) {
		for b.Loop() {
			g := NewGenerator(SameNamespace)
			for _, n := range names {
				g.Named(v, n)
			}
		}
	})
}

func BenchmarkNamedAgain(b *testing.B) {
	sizes(b, func(b *testing.B, v *view.View, names []string) {
		g := NewGenerator(SameNamespace)
		held := make([]*resource.Resource, len(names))
		for i, n := range names {
			held[i] = g.Named(v, n)
		}
		for b.Loop() {
			for i, n := range names {
				if g.Named(v, n) != held[i] {
					b.Fatal("built again")
				}
			}
		}
	})
}

// BenchmarkAffected measures the rotation of one secret for a View that watches all.
func BenchmarkAffected(b *testing.B) {
	sizes(b, func(b *testing.B, v *view.View, names []string) {
		g := NewGenerator(SameNamespace)
		d := snapshot.Delta{
			Configs: map[config.Key]struct{}{{Kind: api.Secret, Namespace: "ingress", Name: "cert-00500"}: {}},
		}
		for b.Loop() {
			if len(g.Affected(v, v, d, names)) != 1 {
				b.Fatal("want one")
			}
		}
	})
}

// BenchmarkProblems is the inspection of Secrets that it has seen before.
func BenchmarkProblems(b *testing.B) {
	sizes(b, func(b *testing.B, v *view.View, _ []string) {
		i := new(Inspector)
		for b.Loop() {
			if got := i.Problems(v.Snapshot, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); len(got) > 0 {
				b.Fatal(got[0])
			}
		}
	})
}
