package membership

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// withGroups returns a snapshot with a WorkloadGroup for each NAMESPACE/ACCOUNT.
func withGroups(t *testing.T, accounts ...string) *snapshot.Snapshot {
	t.Helper()
	var text strings.Builder
	for _, a := range accounts {
		namespace, name, _ := strings.Cut(a, "/")
		fmt.Fprintf(&text, "---\napiVersion: networking.istio.io/v1\nkind: WorkloadGroup\nmetadata: {name: %s, namespace: %s}\n"+
			"spec: {template: {serviceAccount: %s}}\n", name, namespace, name)
	}
	return fixture.New(t, []byte(text.String()), nil).Snapshot()
}

func shop(name string) spiffe.Account {
	return spiffe.Account{TrustDomain: "cluster.local", Namespace: "shop", Name: name}
}

// TestGracePeriod checks that an account remains a member for a while after the removal of its last
// workload, measured from the removal and not from the first query. An account that may have a
// workload in a cluster that is not in sync is not refused permanently.
func TestGracePeriod(t *testing.T) {
	now := time.Unix(1000, 0)
	newest := withGroups(t, "shop/web", "shop/api")
	var unsynced []string
	r := New(Options{
		Snapshot: func() *snapshot.Snapshot { return newest }, SystemNamespace: "istio-system", Grace: time.Minute,
		UnsyncedClusters: func() []string { return unsynced }, Now: func() time.Time { return now },
	})
	refused := errors.New("refused")
	expect := func(when, name string, want error) {
		t.Helper()
		err := r.Check(shop(name))
		if (want == nil) != (err == nil) || errors.Is(want, authenticate.ErrUnavailable) != errors.Is(err, authenticate.ErrUnavailable) {
			t.Errorf("%s: %s: %v, want %v", when, name, err, want)
		}
	}
	expect("at first", "web", nil)
	expect("at first", "unknown", refused)
	newest = withGroups(t, "shop/api")
	r.refresh()
	now = now.Add(59 * time.Second)
	expect("within the grace period", "web", nil)
	now = now.Add(2 * time.Second)
	expect("after the grace period", "web", refused)
	expect("after the grace period", "api", nil)
	if r.HasWorkload(shop("web")) {
		t.Error("HasWorkload applies the grace period")
	}
	unsynced = []string{"east"}
	expect("while a cluster is not in sync", "web", authenticate.ErrUnavailable)
	expect("while a cluster is not in sync", "api", nil)
	unsynced = nil
	newest = withGroups(t, "shop/api", "shop/web")
	expect("added again", "web", nil)
	newest = withGroups(t)
	r.refresh()
	now = now.Add(30 * time.Second)
	expect("removed again", "web", nil)
	r.options.Grace = -1
	now = now.Add(time.Hour)
	expect("with an endless grace period", "web", nil)
}

// TestSystemNamespace checks that every account of the control plane's namespace is a member.
func TestSystemNamespace(t *testing.T) {
	empty := withGroups(t)
	r := New(Options{Snapshot: func() *snapshot.Snapshot { return empty }, SystemNamespace: "istio-system"})
	if err := r.Check(spiffe.Account{TrustDomain: "cluster.local", Namespace: "istio-system", Name: "any"}); err != nil {
		t.Error(err)
	}
}

// TestRemovalsAreRecorded checks that Run records a removal without a query.
func TestRemovalsAreRecorded(t *testing.T) {
	newest := withGroups(t, "shop/web")
	r := New(Options{Snapshot: func() *snapshot.Snapshot { return newest }, Grace: time.Hour})
	r.interval = time.Millisecond
	r.refresh()
	newest = withGroups(t, "shop/api")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { r.Run(ctx); close(done) }()
	defer func() { stop(); <-done }()
	serving.Until(t, 10*time.Second, "the removal is recorded", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		_, recorded := r.removed[account{"shop", "web"}]
		return recorded
	})
}
