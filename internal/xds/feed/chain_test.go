package feed

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/ingest/source/xds"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// downstream is a control plane that reads its config from a Feed.
type downstream struct {
	t        *testing.T
	out      chan mesh.Batch
	objects  map[config.Key]*config.Config
	problems map[string][]config.Problem
	events   []string
	synced   bool
}

func newDownstream(t *testing.T, c *meshconfig.ConfigSource) *downstream {
	t.Helper()
	s, err := xds.New(c, xds.Options{Backoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &downstream{
		t:        t,
		out:      make(chan mesh.Batch),
		objects:  map[config.Key]*config.Config{},
		problems: map[string][]config.Problem{},
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, d.out) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *downstream) until(what string, condition func() bool) {
	d.t.Helper()
	deadline := time.After(10 * time.Second)
	for !condition() {
		select {
		case b := <-d.out:
			d.recordBatch(b)
		case <-deadline:
			d.t.Fatalf("timed out waiting until %s\nobjects %v\nproblems %v", what, slices.Collect(maps.Keys(d.objects)), d.problems)
		}
	}
}

func (d *downstream) recordBatch(b mesh.Batch) {
	for _, e := range b {
		switch {
		case e.Op == mesh.Synced:
			d.synced = true
		case e.Problems != nil && len(e.Problems.List) == 0:
			delete(d.problems, e.Problems.Scope)
		case e.Problems != nil:
			d.problems[e.Problems.Scope] = e.Problems.List
		case e.Op == mesh.Delete:
			d.events = append(d.events, "delete "+e.Config.Name)
			delete(d.objects, e.Config.Key)
		default:
			d.events = append(d.events, "upsert "+e.Config.Name)
			d.objects[e.Config.Key] = e.Config
		}
	}
}

func (d *downstream) want(events ...string) {
	d.t.Helper()
	d.until(fmt.Sprint(events), func() bool { return len(d.events) >= len(events) })
	if diff := cmp.Diff(events, d.events); diff != "" {
		d.t.Errorf("events (-want +got):\n%s", diff)
	}
	d.events = nil
}

// compare fails the test unless the downstream control plane has exactly the objects in want.
func (d *downstream) compare(want []*config.Config) {
	d.t.Helper()
	if len(d.objects) != len(want) {
		d.t.Errorf("%d objects, want %d", len(d.objects), len(want))
	}
	for _, w := range want {
		got := d.objects[w.Key]
		if got == nil {
			d.t.Errorf("%s is missing", w.Key)
			continue
		}
		a, b := w.Spec.(proto.Message), got.Spec.(proto.Message)
		if !proto.Equal(a, b) || got.Hash != w.Hash {
			d.t.Errorf("%s: %v (hash %x), want %v (hash %x)", w.Key, b, got.Hash, a, w.Hash)
		}
	}
}

// modes are the address parameters that select the protocol variants.
var modes = map[string]string{"sotw": "", "delta": "?mode=delta"}

func plain() Options { return Options{Access: Access{PlainText: PlainTextLoopback}} }

func TestOneControlPlaneFeedsAnother(t *testing.T) {
	for mode, parameter := range modes {
		t.Run(mode, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			t.Run("chain", func(t *testing.T) {
				f := New(plain())
				list := objects(t, everyKind)
				k := newKeeper(f, list...)
				at, _ := listen(t, f, "127.0.0.1:0", nil)
				d := newDownstream(t, &meshconfig.ConfigSource{Address: "xds://" + at + parameter})
				d.until("sync", func() bool { return d.synced })
				d.compare(list)
				d.events = nil

				k.remove(list[1].Key)
				d.want("delete dr")
				more := objects(t, `
apiVersion: networking.istio.io/v1beta1
kind: Sidecar
metadata: {name: other, namespace: ns-2}
spec: {egress: [{hosts: ["*/*"]}]}`)
				k.apply(upserts(more...)...)
				d.want("upsert other")
				d.compare(append(slices.Delete(slices.Clone(list), 1, 2), more...))
				if len(d.problems) > 0 {
					t.Errorf("problems %v", d.problems)
				}
			})
		})
	}
}

func TestRestartOfTheFeed(t *testing.T) {
	for mode, parameter := range modes {
		t.Run(mode, func(t *testing.T) {
			list := objects(t, everyKind)
			f := New(plain())
			newKeeper(f, list...)
			at, stop := listen(t, f, "127.0.0.1:0", nil)
			d := newDownstream(t, &meshconfig.ConfigSource{Address: "xds://" + at + parameter})
			d.until("sync", func() bool { return d.synced })
			d.events = nil
			stop()

			// A new server process with the same config except one object, deleted while no client
			// was connected.
			o := plain()
			counts := &counter{}
			o.Metrics = counts
			again := New(o)
			newKeeper(again, objects(t, everyKind)[1:]...)
			listen(t, again, at, nil)
			d.want("delete vs")
			d.compare(list[1:])
			serving.Until(
				t,
				10*time.Second,
				"every type is answered",
				func() bool { return counts.types() == len(kinds()) },
			)
			if n := counts.total(); mode == "delta" && n != 0 {
				t.Errorf("%d resources were sent again to a client that had them", n)
			}
		})
	}
}

// counter implements Metrics with counters.
type counter struct {
	noMetrics
	sent tally
}

func (c *counter) Sent(typeURL string, resources, _ int, _ time.Duration) {
	c.sent.add(typeURL, resources)
}
func (c *counter) types() int { return len(c.sent.copy()) }

func (c *counter) total() int {
	n := 0
	for _, v := range c.sent.copy() {
		n += v
	}
	return n
}

func TestMutualTLS(t *testing.T) {
	ca, roots := pki.Authority("root"), filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(roots, ca.CertificatePEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	f := New(Options{Access: Access{Identities: []string{"spiffe://cluster.local/ns/istio-system/sa/istiod"}}})
	newKeeper(f, objects(t, everyKind)...)
	at, _ := listen(t, f, "127.0.0.1:0", secured(ca))
	source := func(account string) *meshconfig.ConfigSource {
		cert, key := clientFiles(t, ca, account)
		return &meshconfig.ConfigSource{Address: "xds://" + at, TlsSettings: &networking.ClientTLSSettings{
			Mode: networking.ClientTLSSettings_MUTUAL, CaCertificates: roots, ClientCertificate: cert, PrivateKey: key,
		}}
	}
	ours := newDownstream(t, source("istiod"))
	ours.until("sync", func() bool { return ours.synced })
	ours.compare(objects(t, everyKind))

	other := newDownstream(t, source("reviews"))
	other.until("it is refused", func() bool { return len(other.problems) > 0 })
	if reason := other.problems["xds://"+at][0].Reason; !strings.Contains(reason, "sa/reviews is not an accepted identity") ||
		len(other.objects) > 0 {
		t.Errorf("reason %q, %d objects", reason, len(other.objects))
	}
}

func TestTwoClientsInTheirOwnWays(t *testing.T) {
	list := objects(t, everyKind)
	f := New(plain())
	k := newKeeper(f, list...)
	at, _ := listen(t, f, "127.0.0.1:0", nil)
	a, b := newDownstream(
		t,
		&meshconfig.ConfigSource{Address: "xds://" + at},
	), newDownstream(
		t,
		&meshconfig.ConfigSource{Address: "xds://" + at + "?mode=delta"},
	)
	for _, d := range []*downstream{a, b} {
		d.until("sync", func() bool { return d.synced })
		d.events = nil
	}
	k.remove(list[0].Key)
	a.want("delete vs")
	b.want("delete vs")
}
