package probe

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
)

// maxRedirects is the number of requests after which the kubelet, too, follows no redirect.
const maxRedirects = 10

// insecureTLS accepts any certificate, because a probe checks health and not identity.
func insecureTLS() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // see above
}

// errNoAddress returns the error for a source address that this host does not have.
func errNoAddress() error { return syscall.EADDRNOTAVAIL }

// httpGet requests the probe's path and follows redirects within the same host name. A redirect to
// another host is returned as the response. host is the Host header, unless headers has one; if
// empty, it is the probe's address. An invalid path, a failed connection or a redirect after
// maxRedirects requests is an error; otherwise the caller must close the response's body.
func (p *Prober) httpGet(ctx context.Context, probe *HTTP, headers http.Header, host string) (*http.Response, error) {
	target, err := url.Parse("/" + strings.TrimPrefix(probe.Path, "/"))
	if err != nil {
		return nil, fmt.Errorf("invalid path of the probe: %w", err)
	}
	target.Scheme, target.Host = "http", p.hostPort(probe.Host, probe.Port)
	if probe.Secure {
		target.Scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Host = host
	for name, values := range headers {
		request.Header[name] = values
		if http.CanonicalHeaderKey(name) == "Host" && len(values) > 0 {
			request.Host = values[0]
		}
	}
	client := &http.Client{Transport: p.transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if next.URL.Hostname() != via[0].URL.Hostname() {
			return http.ErrUseLastResponse
		}
		if len(via) >= maxRedirects {
			return fmt.Errorf("stopped after %d redirects", len(via))
		}
		return nil
	}}
	return client.Do(request)
}

// runCommand runs a command. If it fails, the error contains the first line of its output. An empty
// command is an error.
func runCommand(ctx context.Context, command []string) error {
	if len(command) == 0 {
		return fmt.Errorf("the probe has no command")
	}
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	if out, err := c.CombinedOutput(); err != nil {
		first, _, _ := strings.Cut(string(out), "\n")
		return fmt.Errorf("run %s: %w: %.200s", command[0], err, first)
	}
	return nil
}
