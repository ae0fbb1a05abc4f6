package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
)

// missingProxyError is the error of a page about a proxy that is not connected.
type missingProxyError struct {
	proxy string
	err   error
}

// Error names the proxy, and the commands to find out more.
func (e *missingProxyError) Error() string {
	return fmt.Sprintf("no proxy %q is connected to this control plane; pilotctl proxy-status lists the connected ones, "+
		"and pilotctl check-inject shows whether a pod gets a proxy", e.proxy)
}

// Unwrap returns the error of the control plane.
func (e *missingProxyError) Unwrap() error { return e.err }

// readPage reads a debug page like readAnyPage. It returns a *missingProxyError if no replica has
// the proxy of the query. Any other error is returned unchanged.
func (a *pageClient) readPage(c *cobra.Command, name string, query url.Values, into any) error {
	err := a.readAnyPage(c, name, query, into)
	if proxy := query.Get("proxyID"); proxy != "" && isNotFound(err) {
		return &missingProxyError{proxy, err}
	}
	return err
}

// readAnyPage reads a debug page of the first replica that has it, and decodes its JSON into the
// value that into points to. If all known replicas answer 404 but there may be others, the first of
// them asks those. If no replica has the page, it returns an error, preferably one other than 404:
// a replica that did not answer may have it.
func (a *pageClient) readAnyPage(c *cobra.Command, name string, query url.Values, into any) error {
	control, err := a.controlPlane(c.Context())
	if err != nil {
		return err
	}
	var failure error
	for _, r := range control.Replicas {
		body, err := readReplica(c.Context(), r, "/debug/"+name, query)
		if err == nil {
			return decodePage(name, body, into)
		}
		if failure == nil || !isNotFound(err) {
			failure = err
		}
	}
	if control.Complete || !isNotFound(failure) {
		return failure
	}
	others, err := readOthers(c.Context(), control.Replicas[0], name, query)
	if err != nil {
		return failure // the replica does not ask others
	}
	for _, p := range others {
		if p.err == nil {
			return decodePage(name, p.body, into)
		}
		if !isNotFound(p.err) {
			failure = p.err
		}
	}
	return failure
}

// decodePage decodes the JSON of the debug page name into the value that into points to.
func decodePage(name string, body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("read /debug/%s: %w", name, err)
	}
	return nil
}

// pageBody is a debug page of one replica, or the error of reading it.
type pageBody struct {
	replica string
	body    []byte
	err     error
}

// readEach reads a debug page of each replica of a control plane concurrently. The result has an
// entry for each replica, in their order, with its body or error.
func readEach(ctx context.Context, control *connect.ControlPlane, name string, query url.Values) []pageBody {
	all := make([]pageBody, len(control.Replicas))
	var group errgroup.Group
	for i, r := range control.Replicas {
		group.Go(func() error {
			body, err := readReplica(ctx, r, "/debug/"+name, query)
			all[i] = pageBody{r.Name, body, err}
			return nil
		})
	}
	_ = group.Wait() // errors are in the pages
	return all
}

// readOthers reads a debug page of a replica, and through it of the others, by the read API. Each
// element has the page of one replica, or its error, also if it did not answer. If the asked
// replica does not answer, or does not serve the read API, it returns an error and no pages.
func readOthers(ctx context.Context, r *connect.Replica, name string, query url.Values) ([]pageBody, error) {
	body, err := readReplica(ctx, r, readapi.Prefix+"/pages/"+url.PathEscape(name),
		url.Values{"query": {query.Encode()}})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Pages []struct {
			readapi.ReplicaPage
			Body json.RawMessage `json:"body"`
		} `json:"pages"`
		Unanswered []readapi.Unanswered `json:"unanswered"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	if len(answer.Pages) == 0 {
		return nil, errors.New("this is not an answer of the read API")
	}
	var all []pageBody
	for _, p := range answer.Pages {
		one := pageBody{replica: p.Replica, body: p.Body}
		if p.Status != http.StatusOK {
			one.err = &statusError{"/debug/" + name + " of " + p.Replica,
				fmt.Sprintf("%d %s", p.Status, http.StatusText(p.Status)), p.Error, p.Status}
		}
		all = append(all, one)
	}
	for _, u := range answer.Unanswered {
		all = append(all, pageBody{replica: u.Address,
			err: fmt.Errorf("ask the control plane (%s): %s", u.Address, u.Reason)})
	}
	return all, nil
}

// replicaPage is a debug page of one replica.
type replicaPage[T any] struct {
	replica string
	value   T
}

// readPages reads a debug page of all replicas. If not all are known, the first known one asks the
// others; if it cannot, only the known ones are read, without a warning about others. A replica that
// does not answer, or whose page cannot be decoded, is left out with a warning. It returns an error
// if there is no control plane to ask, and the errors of all if none answers.
func readPages[T any](a *pageClient, c *cobra.Command, name string, query url.Values) ([]replicaPage[T], error) {
	control, err := a.controlPlane(c.Context())
	if err != nil {
		return nil, err
	}
	var all []pageBody
	if !control.Complete {
		all, err = readOthers(c.Context(), control.Replicas[0], name, query)
	}
	if control.Complete || err != nil {
		all = readEach(c.Context(), control, name, query)
	}
	var answered []replicaPage[T]
	var failures []error
	for _, p := range all {
		one := replicaPage[T]{replica: p.replica}
		if p.err == nil {
			p.err = decodePage(name, p.body, &one.value)
		}
		if p.err != nil {
			failures = append(failures, p.err)
			continue
		}
		answered = append(answered, one)
	}
	if len(answered) == 0 {
		return nil, errors.Join(failures...)
	}
	for _, err := range failures {
		fmt.Fprintln(c.ErrOrStderr(), "warning: the output is incomplete:", err)
	}
	return answered, nil
}
