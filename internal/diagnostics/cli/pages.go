package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
)

// readPage reads a debug page of the first replica that has it, and decodes its JSON into the value
// that into points to. If no replica has it, it returns an error, preferably one other than 404.
func (a *pageClient) readPage(c *cobra.Command, name string, query url.Values, into any) error {
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
	return failure
}

// decodePage decodes the JSON of the debug page name into the value that into points to.
func decodePage(name string, body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("read /debug/%s: %w", name, err)
	}
	return nil
}

// replicaPage is a debug page of one replica.
type replicaPage[T any] struct {
	replica *connect.Replica
	value   T
	err     error
}

// readPages reads a debug page of all replicas concurrently. A replica that does not answer is
// named in a warning and left out. If none answers, it returns the errors of all.
func readPages[T any](a *pageClient, c *cobra.Command, name string, query url.Values) ([]replicaPage[T], error) {
	control, err := a.controlPlane(c.Context())
	if err != nil {
		return nil, err
	}
	all := make([]replicaPage[T], len(control.Replicas))
	var group errgroup.Group
	for i, r := range control.Replicas {
		group.Go(func() error {
			all[i].replica = r
			body, err := readReplica(c.Context(), r, "/debug/"+name, query)
			if err == nil {
				err = decodePage(name, body, &all[i].value)
			}
			all[i].err = err
			return nil
		})
	}
	_ = group.Wait() // errors are in the pages
	var answered []replicaPage[T]
	var failures []error
	for _, p := range all {
		if p.err == nil {
			answered = append(answered, p)
			continue
		}
		failures = append(failures, p.err)
	}
	if len(answered) == 0 {
		return nil, errors.Join(failures...)
	}
	for _, err := range failures {
		fmt.Fprintln(c.ErrOrStderr(), "warning: the output is incomplete:", err)
	}
	return answered, nil
}
