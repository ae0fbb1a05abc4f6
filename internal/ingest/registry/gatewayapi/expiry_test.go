package gatewayapi_test

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// TestExpiry lets the certificate of a listener expire, and then rotates it. The status changes
// with the next batch, also with an empty one. The listener is served all the time.
func TestExpiry(t *testing.T) {
	now := time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
	secret := func(until time.Time) mesh.Event {
		pair := pki.SelfSigned(&x509.Certificate{NotBefore: now.Add(-time.Hour), NotAfter: until})
		encode := base64.StdEncoding.EncodeToString
		return inputs(t, fmt.Appendf(nil, "kind: Secret\nmetadata: {name: cert}\ndata: {tls.crt: %s, tls.key: %s}",
			encode(pair.CertificatePEM()), encode(pair.KeyPEM())))[0]
	}
	objects := inputs(t, []byte(`
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: g}
spec: {gatewayClassName: istio, listeners: [{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}]}`))
	var changed []config.Key
	c, s := gatewayapi.New(gatewayapi.Options{
		Now: func() time.Time { return now }, OnStatusesChanged: func(keys []config.Key) { changed = keys },
	}), newState()
	require := func(want string) {
		t.Helper()
		served, status, problems := s.text(t, c.Statuses())
		if got := strings.Contains(string(status), "InvalidCertificateRef"); got != (want != "") {
			t.Errorf("status:\n%s\nwant %q", status, want)
		}
		if got := string(problems); got != want {
			t.Errorf("Problems %q, want %q", got, want)
		}
		if !strings.Contains(string(served), "credentialName") {
			t.Errorf("the listener is not served:\n%s", served)
		}
	}
	s.apply(t, c.Convert(append(objects, secret(now.Add(time.Hour)), mesh.Event{Op: mesh.Synced})))
	require("")
	if got := c.NextChange(); !got.Equal(now.Add(time.Hour)) {
		t.Errorf("the next change is at %v", got)
	}
	now = now.Add(2 * time.Hour)
	changed = nil
	s.apply(t, c.Convert(nil))
	if got := c.NextChange(); !got.IsZero() {
		t.Errorf("the next change is at %v, want none", got)
	}
	require("error: Gateway.gateway.networking.k8s.io/default/g: spec.listeners[0].tls.certificateRefs[0]: " +
		"InvalidCertificateRef: Secret default/cert has a certificate that expired on 2040-01-01 01:00:00\n")
	if len(changed) != 1 {
		t.Errorf("changed statuses: %v", changed)
	}
	s.apply(t, c.Convert(mesh.Batch{secret(now.Add(time.Hour))}))
	require("")
}
