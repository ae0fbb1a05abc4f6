package wasm

import (
	"crypto/tls"
	"net/http"
)

// fetcher downloads modules.
type fetcher struct {
	// transport verifies certificates, insecureTransport does not and is used for insecure hosts.
	transport, insecureTransport *http.Transport
	retries                      int
	insecure                     map[string]bool
	// limit is maxModule, or less in tests.
	limit int64
}

// newFetcher returns the fetcher of a Cache with these options.
func newFetcher(o Options) fetcher {
	f := fetcher{
		transport: newTransport(o.Dialer), insecureTransport: newTransport(o.Dialer),
		retries: o.Retries, insecure: map[string]bool{}, limit: maxModule,
	}
	//nolint:gosec // the user has listed the hosts
	f.insecureTransport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
	for _, host := range o.InsecureRegistries {
		f.insecure[host] = true
	}
	return f
}

// isInsecure reports whether the certificate of a host, with its port if it has one, is not
// verified.
func (f *fetcher) isInsecure(host string) bool { return f.insecure[host] || f.insecure["*"] }

// transportFor returns the transport of a fetch from a host, which verifies certificates unless the
// host is insecure (Options.InsecureRegistries). It also applies to other hosts that the fetch is
// redirected to.
func (f *fetcher) transportFor(host string) *http.Transport {
	if f.isInsecure(host) {
		return f.insecureTransport
	}
	return f.transport
}

// closeIdle closes unused connections.
func (f *fetcher) closeIdle() {
	f.transport.CloseIdleConnections()
	f.insecureTransport.CloseIdleConnections()
}
