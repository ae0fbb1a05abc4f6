package nomad

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/truncate"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/clienttls"
)

const (
	// maxAnswer limits the size of one answer and of one line of events. 100,000 registrations stay
	// below it.
	maxAnswer = 256 << 20
	// requestTimeout limits one request, apart from the stream of events.
	requestTimeout = 30 * time.Second
	// streamTimeout limits the time without a line of events. Nomad sends empty ones every 10 to 30
	// s.
	streamTimeout = 75 * time.Second
	// maxReason limits the text of an agent's answer in an error.
	maxReason = 200
)

// client sends requests to one agent.
type client struct {
	settings *Settings
	agent    string
	http     *http.Client
	timeout  time.Duration // without a line of events
}

// newClient returns an HTTP client of an agent. It returns an error if a file of the TLS settings
// cannot be read.
func (s *Settings) newClient(agent string) (*client, error) {
	security, err := s.TLSConfig(flagPrefix)
	if err != nil {
		return nil, err
	}
	return &client{
		settings: s, agent: strings.TrimSuffix(agent, "/"), timeout: streamTimeout,
		http: &http.Client{Transport: clienttls.NewTransport(security)},
	}, nil
}

// close closes the idle connections to the agent.
func (c *client) close() { c.http.CloseIdleConnections() }

// errDenied is returned if the token may not read a namespace.
var errDenied = errors.New("the token may not read it (it needs the capability read-job)")

// send sends a request about a namespace and returns the answer, whose body the caller must close.
// Another status than 200 is an error: it wraps errDenied for 403, and otherwise has the agent's
// reason, cut to maxReason bytes. The token file is read for each request. It adds the namespace
// and the region to query.
func (c *client) send(ctx context.Context, path, namespace string, query url.Values) (*http.Response, error) {
	query.Set("namespace", namespace)
	if c.settings.Region != "" {
		query.Set("region", c.settings.Region)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.agent+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	if c.settings.TokenFile != "" {
		token, err := os.ReadFile(c.settings.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("--nomadTokenFile: %w", err)
		}
		r.Header.Set("X-Nomad-Token", string(bytes.TrimSpace(token)))
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, clienttls.WithoutURL(c.agent, err)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusForbidden {
		return nil, fmt.Errorf("namespace %s: %w", namespace, errDenied)
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxReason))
	return nil, fmt.Errorf("%s answered with status %d: %s", c.agent, response.StatusCode,
		truncate.Text(strings.ToValidUTF8(strings.TrimSpace(string(text)), "?"), maxReason))
}

// get requests a list. It returns the body and the index of the services, which grows with each
// change of any service. An answer above maxAnswer bytes is an error, and so is one without an
// index: it is not one of Nomad's.
func (c *client) get(ctx context.Context, path, namespace string) ([]byte, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	response, err := c.send(ctx, path, namespace, url.Values{})
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	index, err := strconv.ParseUint(response.Header.Get("X-Nomad-Index"), 10, 64)
	if err != nil || index == 0 {
		return nil, 0, fmt.Errorf("the answer of %s has no header X-Nomad-Index", c.agent)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the answer of %s: %w", c.agent, err)
	}
	return body, index, nil
}

// stream requests the events of the services of a namespace and calls handle with each line, which
// is valid only during the call. It ends when handle returns an error, the agent ends the stream,
// no line arrives for the timeout, or ctx ends. It always returns an error. Nomad sends the first
// line, with or without events, at most half a minute after the request, and no answer before.
func (c *client) stream(ctx context.Context, namespace string, handle func(line []byte) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(c.timeout, func() {
		cancel(fmt.Errorf("no event and no heartbeat from %s for %v", c.agent, c.timeout))
	})
	defer silence.Stop()
	response, err := c.send(ctx, "/v1/event/stream", namespace, url.Values{"topic": {"Service"}})
	if err != nil {
		return causeOr(ctx, err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		silence.Reset(c.timeout)
		if err := handle(lines.Bytes()); err != nil {
			return err
		}
		silence.Reset(c.timeout)
	}
	if err := lines.Err(); err != nil {
		return causeOr(ctx, fmt.Errorf("the event stream of %s: %w", c.agent, err))
	}
	return fmt.Errorf("%s ended the event stream", c.agent)
}

// causeOr returns the reason for which ctx was canceled, or err if it was not.
func causeOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
