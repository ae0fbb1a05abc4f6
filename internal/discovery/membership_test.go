package discovery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	security "istio.io/api/security/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestRemovedWorkloadsAreNotRenewed: a workload renews its certificate with the one that it has, until it is taken out of the files. Then it
// cannot, though its certificate is good; the others can. It can again when it is back.
func TestRemovedWorkloadsAreNotRenewed(t *testing.T) {
	l := startLaptop(t, func(o *Options) { o.Authority.RenewalGrace = 0 })
	request := func() *security.IstioCertificateRequest { return new(security.IstioCertificateRequest) }
	web, err := l.certificate(bearing(t.Context(), l.token("shop", "web", time.Hour, "istio-ca")), nil, request())
	if err != nil {
		t.Fatal(err)
	}
	api, err := l.certificate(bearing(t.Context(), l.token("shop", "api", time.Hour, "istio-ca")), nil, request())
	if err != nil {
		t.Fatal(err)
	}
	istiod, err := l.certificate(bearing(t.Context(), l.token("istio-system", "any", time.Hour, "istio-ca")), nil, request())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.certificate(t.Context(), web, request()); err != nil {
		t.Fatalf("a workload that is there: %v", err)
	}
	l.write("groups.yaml", groups("shop/api"))
	l.eventually("the certificate of a removed workload is not renewed", func() error {
		_, err := l.certificate(t.Context(), web, request())
		if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "the workload of this identity was removed") {
			return fmt.Errorf("it is: %w", err)
		}
		return nil
	})
	if _, err := l.certificate(t.Context(), api, request()); err != nil {
		t.Errorf("a workload that stays: %v", err)
	}
	if _, err := l.certificate(t.Context(), istiod, request()); err != nil {
		t.Errorf("an account of the control plane's namespace: %v", err)
	}
	if _, err := l.certificate(bearing(t.Context(), l.token("shop", "api", time.Hour, "istio-ca")), web, request()); err != nil {
		t.Errorf("a certificate of a removed workload, with a token of one that is there: %v", err)
	}
	l.write("groups.yaml", groups("shop/api", "shop/web"))
	l.eventually("it is renewed again", func() error {
		_, err := l.certificate(t.Context(), web, request())
		return err
	})
}

// TestGraceOfRenewal: for a while after the removal a certificate is renewed, from when the account has lost its last workload and not from when
// somebody asks. What is unknown because a cluster is not in sync is no refusal.
func TestGraceOfRenewal(t *testing.T) {
	now := time.Unix(1000, 0)
	in := func(accounts ...string) *snapshot.Snapshot {
		return fixture.New(t, []byte(groups(accounts...)), nil).Snapshot()
	}
	newest := in("shop/web", "shop/api")
	var unsynced []string
	m := &membership{
		current: func() *snapshot.Snapshot { return newest }, system: "istio-system", grace: time.Minute,
		unsynced: func() []string { return unsynced }, now: func() time.Time { return now },
	}
	expect := func(what, name string, want error) {
		t.Helper()
		err := m.check(spiffe.Account{TrustDomain: "cluster.local", Namespace: "shop", Name: name})
		switch {
		case want == nil && err != nil, want != nil && err == nil, errors.Is(want, authenticate.ErrUnavailable) != errors.Is(err, authenticate.ErrUnavailable):
			t.Errorf("%s: %s: %v, want %v", what, name, err, want)
		}
	}
	refused := errors.New("refused")
	expect("at first", "web", nil)
	expect("at first", "nobody", refused)
	newest = in("shop/api")
	m.refresh()
	now = now.Add(59 * time.Second)
	expect("within the grace period", "web", nil)
	now = now.Add(2 * time.Second)
	expect("after it", "web", refused)
	expect("after it", "api", nil)
	if m.has(spiffe.Account{Namespace: "shop", Name: "web"}) {
		t.Error("tokens have no grace period")
	}
	unsynced = []string{"east"}
	expect("while a cluster is not in sync", "web", authenticate.ErrUnavailable)
	expect("while a cluster is not in sync", "api", nil)
	unsynced = nil
	newest = in("shop/api", "shop/web")
	expect("back", "web", nil)
	newest = in()
	m.refresh()
	now = now.Add(30 * time.Second)
	expect("removed once more", "web", nil)
	m.grace = -1
	now = now.Add(time.Hour)
	expect("without the check", "web", nil)
}

// TestRemovalsAreRecorded without anybody asking.
func TestRemovalsAreRecorded(t *testing.T) {
	newest := fixture.New(t, []byte(groups("shop/web")), nil).Snapshot()
	m := &membership{current: func() *snapshot.Snapshot { return newest }, now: time.Now, grace: time.Hour}
	m.refresh()
	newest = fixture.New(t, []byte(groups("shop/api")), nil).Snapshot()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { m.run(ctx, time.Millisecond); close(done) }()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		m.mu.Lock()
		_, recorded := m.removed[member{"shop", "web"}]
		m.mu.Unlock()
		if recorded {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the removal was not recorded")
		}
	}
	stop()
	<-done
}
