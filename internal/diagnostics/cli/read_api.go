package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
)

// readAPI reads a document of the read API from each replica. query must not be nil; it is not
// modified. If not all replicas are known, the replica aggregates the document from the others. A
// replica that does not answer is named in a warning. If none answers, it returns the errors of
// all; otherwise the list is not empty.
func readAPI[T any](a *pageClient, c *cobra.Command, path string, query url.Values) ([]T, error) {
	control, err := a.controlPlane(c.Context())
	if err != nil {
		return nil, err
	}
	query = maps.Clone(query)
	if control.Complete {
		query.Set("local", "true")
	}
	var all []T
	var failures []error
	for _, r := range control.Replicas {
		var x T
		body, err := readReplica(c.Context(), r, readapi.Prefix+path, query)
		if err == nil {
			err = json.Unmarshal(body, &x)
		}
		if err != nil {
			failures = append(failures, err)
			continue
		}
		all = append(all, x)
	}
	if len(all) == 0 {
		return nil, errors.Join(failures...)
	}
	for _, err := range failures {
		fmt.Fprintln(c.ErrOrStderr(), "warning: the output is incomplete:", err)
	}
	return all, nil
}

// warnUnanswered prints a warning for each replica whose answer is missing in a document.
func warnUnanswered(c *cobra.Command, list []readapi.Unanswered) {
	for _, u := range list {
		fmt.Fprintf(c.ErrOrStderr(), "warning: the output is incomplete: ask the control plane (%s): %s\n", u.Address, u.Reason)
	}
}

// readFirst reads a document of the read API from the first replica that has it, whose malformed
// document is an error. If not all replicas are known, the replica asks the others where that
// matters. If none has it, the error is about the replicas that may have it: 404 only if all answer
// that. query is not modified and may be nil.
func readFirst[T any](a *pageClient, c *cobra.Command, path string, query url.Values) (value T, err error) {
	control, err := a.controlPlane(c.Context())
	if err != nil {
		return value, err
	}
	if control.Complete {
		query = maps.Clone(query)
		if query == nil {
			query = url.Values{}
		}
		query.Set("local", "true")
	}
	var failures []error
	for _, r := range control.Replicas {
		body, err := readReplica(c.Context(), r, readapi.Prefix+path, query)
		if err == nil {
			return value, json.Unmarshal(body, &value)
		}
		failures = append(failures, err)
	}
	if known := slices.DeleteFunc(slices.Clone(failures), isNotFound); len(known) > 0 {
		return value, errors.Join(known...)
	}
	return value, failures[0]
}
