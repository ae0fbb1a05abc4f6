package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
)

const (
	// retryInterval is the time between two attempts to reach a control plane.
	retryInterval = 500 * time.Millisecond
	// maxEvent bounds one event of a control plane, in bytes.
	maxEvent = 4 << 20
)

// watchRollout calls handle with each event of the rollout of o at one replica, until handle
// returns an error, which it returns, or ctx ends. It sets w.reached at each event. If a stream
// ends, it opens another one after a pause, except at a pod: then it returns errReplicaGone. If no
// replica was ever reached, or the request is refused, it returns an error at once.
func (w *waiting) watchRollout(ctx context.Context, watch replicaWatch, o awaited,
	handle func(readapi.Rollout) error) error {
	query := url.Values{"namespace": {o.key.Namespace}, "hash": {o.hash}, "proxy": {w.proxy}}
	if watch.local {
		query.Set("local", "true")
	}
	query.Set("deleted", strconv.FormatBool(w.deleted))
	query.Set("generation", strconv.FormatInt(o.generation, 10))
	address := fmt.Sprintf("%s%s/objects/%s/%s/rollout?%s", watch.replica.BaseURL, readapi.Prefix,
		url.PathEscape(string(o.key.Kind)), url.PathEscape(o.key.Name), query.Encode())
	var reached bool
	for {
		err := readEvents(ctx, watch.replica.Transport, address, func(x readapi.Rollout) error {
			w.reached.Store(true)
			reached = true
			return handle(x)
		})
		if !errors.Is(err, errUnreachable) {
			return err
		}
		switch {
		case !reached && !w.reached.Load() && ctx.Err() == nil:
			return fmt.Errorf("ask the control plane (%s): %w", watch.replica.Name, err)
		case pause(ctx, nil) != nil:
			return ctx.Err()
		case watch.replica.Pod != nil:
			return fmt.Errorf("%w: %s: %w", errReplicaGone, watch.replica.Name, err)
		}
	}
}

// replicaWatch is a replica that is asked for a rollout. If local is set, it answers for itself only.
type replicaWatch struct {
	replica *connect.Replica
	local   bool
}

// errReplicaGone means that a pod of the control plane that was asked does not answer any longer.
var errReplicaGone = errors.New("a replica of the control plane has ended")

// pause waits for retryInterval and returns err. If ctx ends before, it returns the error of ctx
// instead.
func pause(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(retryInterval):
		return err
	}
}

// errUnreachable means that the control plane did not answer or closed the connection.
var errUnreachable = errors.New("no answer")

// readEvents calls handle with each event of a stream until handle returns an error, which it
// returns. It returns errUnreachable, with the reason, if the stream cannot be opened or ends. A
// status other than 200, and a malformed event, are other errors.
func readEvents(ctx context.Context, transport http.RoundTripper, address string,
	handle func(readapi.Rollout) error) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return refusedRequest(answer)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		text, isData := strings.CutPrefix(lines.Text(), "data: ")
		if !isData {
			continue
		}
		var x readapi.Rollout
		if err := json.Unmarshal([]byte(text), &x); err != nil {
			return fmt.Errorf("read an event of the control plane: %w", err)
		}
		if err := handle(x); err != nil {
			return err
		}
	}
	if lines.Err() != nil {
		return fmt.Errorf("%w: %w", errUnreachable, lines.Err())
	}
	return fmt.Errorf("%w: the stream has ended", errUnreachable)
}

// refusalError is the error of a request that the read API refuses. Its text is the reason alone.
type refusalError struct{ *statusError }

// Error returns the reason of the control plane, without the URL and status.
func (e *refusalError) Error() string { return e.text }

// Unwrap returns the error with the status.
func (e *refusalError) Unwrap() error { return e.statusError }

// refusedRequest returns the error in an answer of the read API (RFC 9457): a *refusalError, or an
// error with the status and the text if the answer has another form. It returns errUnreachable if
// the answer cannot be read.
func refusedRequest(answer *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxEvent))
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	var problem struct{ Detail string }
	if json.Unmarshal(text, &problem) == nil && problem.Detail != "" {
		return &refusalError{&statusError{answer.Request.URL.String(), answer.Status, problem.Detail,
			answer.StatusCode}}
	}
	return fmt.Errorf("the control plane answered %s: %s", answer.Status, strings.TrimSpace(string(text)))
}
