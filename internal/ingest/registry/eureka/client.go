package eureka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/retry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/clienttls"
)

// maxAnswer limits the size of one answer. 100,000 instances stay below it.
const maxAnswer = 256 << 20

// requestTimeout limits one request.
const requestTimeout = 30 * time.Second

// client sends requests to the servers.
type client struct {
	settings *Settings
	http     *http.Client
	servers  *retry.Addresses
	// last is the server that answered last, or "".
	last string
}

// newClient returns an HTTP client of the servers. It returns an error if a file of the TLS
// settings cannot be read.
func (s *Settings) newClient() (*client, error) {
	security, err := s.TLSConfig(flagPrefix)
	if err != nil {
		return nil, err
	}
	return &client{
		settings: s, http: &http.Client{Transport: clienttls.NewTransport(security), Timeout: requestTimeout},
		servers: retry.NewAddresses(s.URLs),
	}, nil
}

// close closes the idle connections to the servers.
func (c *client) close() { c.http.CloseIdleConnections() }

// errNoDelta is returned for a server that does not serve changes.
var errNoDelta = errors.New("the server does not serve changes")

// get requests a path of the servers, beginning with the server of the last answer. It returns the
// first body, or errNoDelta if a server does not serve changes. If another server than c.last
// answered, as in the first call, other is true and it changes c.last. If all fail, the error joins
// the servers' errors.
func (c *client) get(ctx context.Context, path string) (body []byte, other bool, err error) {
	noDelta := false
	err = c.servers.Try(ctx, func(server string) (done bool, err error) {
		body, err = c.getFrom(ctx, server, path)
		if noDelta = errors.Is(err, errNoDelta); err != nil && !noDelta {
			return false, err
		}
		other, c.last = server != c.last, server
		return true, nil
	})
	if noDelta {
		err = errNoDelta
	}
	return body, other, err
}

// getFrom requests a path of one server and returns the body. It returns errNoDelta if the server
// answers pathDelta with status 403 or 404, so does not serve changes. It returns an error for
// another status than 200 or a body above maxAnswer. Errors contain the server's address but not
// the path.
func (c *client) getFrom(ctx context.Context, server, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(server, "/")+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("X-Eureka-Accept", "full")
	if err := c.settings.authenticate(r); err != nil {
		return nil, err
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, clienttls.WithoutURL(server, err)
	}
	defer response.Body.Close()
	switch {
	case path == pathDelta && (response.StatusCode == http.StatusForbidden ||
		response.StatusCode == http.StatusNotFound):
		return nil, errNoDelta
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answered with status %d", server, response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", server, err)
	}
	return body, nil
}

// authenticate adds the user and the password in AuthFile to a request. It does nothing if AuthFile
// is not set. It returns an error if the file cannot be read or has no colon.
func (s *Settings) authenticate(r *http.Request) error {
	if s.AuthFile == "" {
		return nil
	}
	text, err := os.ReadFile(s.AuthFile)
	if err != nil {
		return fmt.Errorf("--eurekaAuthFile: %w", err)
	}
	user, password, found := strings.Cut(string(bytes.TrimSpace(text)), ":")
	if !found {
		return fmt.Errorf("--eurekaAuthFile %s: want user:password", s.AuthFile)
	}
	r.SetBasicAuth(user, password)
	return nil
}
