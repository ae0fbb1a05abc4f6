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

	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
)

const (
	// retryInterval is the time between two attempts to reach a control plane.
	retryInterval = 500 * time.Millisecond
	// maxEvent bounds one event of a control plane, in bytes.
	maxEvent = 4 << 20
)

// watchRollout calls handle with each event of the rollout of an object at one replica, until
// handle returns an error, which it returns, or ctx ends. While the control plane cannot be
// reached, or if it ends the stream, it is asked again. A request that the control plane refuses is
// an error.
func (w *waiting) watchRollout(ctx context.Context, server string, o awaited, handle func(readapi.Rollout) error) error {
	query := url.Values{"namespace": {o.key.Namespace}, "hash": {o.hash}, "proxy": {w.proxy}}
	if strings.Contains(w.server, ",") {
		query.Set("local", "true")
	}
	query.Set("deleted", strconv.FormatBool(w.deleted))
	query.Set("generation", strconv.FormatInt(o.generation, 10))
	address := fmt.Sprintf("http://%s%s/objects/%s/%s/rollout?%s", server, readapi.Prefix,
		url.PathEscape(string(o.key.Kind)), url.PathEscape(o.key.Name), query.Encode())
	var reached bool
	for {
		err := readEvents(ctx, address, func(x readapi.Rollout) error { reached = true; return handle(x) })
		if !errors.Is(err, errUnreachable) {
			return err
		}
		if !reached && ctx.Err() == nil {
			return fmt.Errorf("ask the control plane (--server %s): %w", server, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryInterval):
		}
	}
}

// errUnreachable means that the control plane did not answer or closed the connection.
var errUnreachable = errors.New("no answer")

// readEvents calls handle with each event of a stream until it returns an error. It returns
// errUnreachable, with the reason, if the stream cannot be opened or ends.
func readEvents(ctx context.Context, address string, handle func(readapi.Rollout) error) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
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

// refusedRequest returns the error in an answer of the read API (RFC 9457).
func refusedRequest(answer *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxEvent))
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	var problem struct{ Detail string }
	if json.Unmarshal(text, &problem) == nil && problem.Detail != "" {
		return errors.New(problem.Detail)
	}
	return fmt.Errorf("the control plane answered %s: %s", answer.Status, strings.TrimSpace(string(text)))
}
