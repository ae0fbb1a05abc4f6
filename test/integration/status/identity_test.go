package status

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"path/filepath"

	"google.golang.org/grpc/credentials"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// authenticated returns what makes a control plane serve xDS over TLS, to proxies with certificates of that root.
func (l *lab) authenticated(root *pki.Pair) func(*discovery.Options) {
	return func(o *discovery.Options) {
		file := func(name string) string { return filepath.Join(l.TempDir(), name) }
		own := root.Issue(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
		o.SecureGRPCAddr = serving.FreeAddress(l)
		o.TLSCertFile, o.TLSKeyFile, o.CACertFile = file("cert.pem"), file("key.pem"), file("root.pem")
		if err := own.WriteFiles(o.TLSCertFile, o.TLSKeyFile); err != nil {
			l.Fatal(err)
		}
		if err := root.WriteFiles(o.CACertFile, file("root-key.pem")); err != nil {
			l.Fatal(err)
		}
	}
}

// connectAs connects a sidecar that proves to be of a service account with its own name.
func (r *replica) connectAs(root *pki.Pair, name, ip string) *sidecar.Proxy {
	r.l.Helper()
	own := root.Issue(&x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: "/ns/" + r.l.shop + "/sa/" + name}}})
	c := credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own.TLS()}, RootCAs: root.Pool()})
	return sidecar.ConnectWith(r.l, r.Secure, c, sidecar.Node(name, r.l.shop, ip, nil))
}
