package secret

import (
	"testing"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// TestFilesOfTheProxy: names of files are answered with the files' names for every proxy and every
// policy.
func TestFilesOfTheProxy(t *testing.T) {
	v := fixture.New(t, nil, nil).View(fixture.Proxy(t, nil))
	g := NewGenerator(Public)
	pair := golden.Decode(t, g.Named(v, "file-cert:/tls/cert.pem~/tls/key.pem")).(*tlsv3.Secret)
	if c := pair.GetTlsCertificate(); c.GetCertificateChain().GetFilename() != "/tls/cert.pem" ||
		c.GetPrivateKey().GetFilename() != "/tls/key.pem" {
		t.Errorf("the certificate is %v", c)
	}
	roots := golden.Decode(t, g.Named(v, "file-root:/tls/ca.pem")).(*tlsv3.Secret)
	if c := roots.GetValidationContext(); c.GetTrustedCa().GetFilename() != "/tls/ca.pem" {
		t.Errorf("the roots are %v", c)
	}
	system := golden.Decode(t, g.Named(v, "file-root:system")).(*tlsv3.Secret)
	if c := system.GetValidationContext(); c.GetTrustedCa().GetFilename() != "/etc/ssl/certs/ca-certificates.crt" {
		t.Errorf("the authorities of the system are %v", c)
	}
}
