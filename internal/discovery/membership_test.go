package discovery

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	security "istio.io/api/security/v1alpha1"
)

// TestRemovedWorkloadsAreNotRenewed: a workload renews its certificate with its current one until
// it is removed from the files. Then renewal is refused although the certificate is valid, while
// others still renew theirs. It works again when the workload is added again.
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
		t.Fatalf("a listed workload: %v", err)
	}
	l.write("groups.yaml", groups("shop/api"))
	l.eventually("the certificate of a removed workload is not renewed", func() error {
		_, err := l.certificate(t.Context(), web, request())
		if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "the workload of this identity was removed") {
			return fmt.Errorf("got %w, want PermissionDenied", err)
		}
		return nil
	})
	if _, err := l.certificate(t.Context(), api, request()); err != nil {
		t.Errorf("a workload that was not removed: %v", err)
	}
	if _, err := l.certificate(t.Context(), istiod, request()); err != nil {
		t.Errorf("an account of the control plane's namespace: %v", err)
	}
	if _, err := l.certificate(bearing(t.Context(), l.token("shop", "api", time.Hour, "istio-ca")), web, request()); err != nil {
		t.Errorf("a certificate of a removed workload, with a token of a listed one: %v", err)
	}
	l.write("groups.yaml", groups("shop/api", "shop/web"))
	l.eventually("the certificate is renewed again", func() error {
		_, err := l.certificate(t.Context(), web, request())
		return err
	})
}
