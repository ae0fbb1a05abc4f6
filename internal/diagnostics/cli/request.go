package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
)

// requestCommand returns the command that sends a request to each replica and prints the responses,
// after the replica's name if there are several. Its arguments are the method, the path and
// optionally the body. --address is the former name of --server. It ends at the first error.
func (a *pageClient) requestCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "request METHOD PATH [BODY]", Short: "Read a page of the control plane as it is",
		Args: cobra.RangeArgs(2, 3),
		Long: "request prints a page of the control plane as it is. With several replicas, each page follows a line with the name of\n" +
			"its replica.",
		Example: "  pilotctl request GET /debug/syncz?pretty\n  pilotctl request POST '/debug/adsz?push=true'",
		RunE: func(c *cobra.Command, args []string) error {
			control, err := a.controlPlane(c.Context())
			if err != nil {
				return err
			}
			for _, r := range control.Replicas {
				if len(control.Replicas) > 1 {
					fmt.Fprintf(c.OutOrStdout(), "==> %s\n", r.Name)
				}
				if err := printResponse(c.Context(), c.OutOrStdout(), r, append(args, "")); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&a.server, "address", "", "former name of --server")
	_ = c.Flags().MarkHidden("address") // the flag exists
	return c
}

// printResponse sends a request with the method, path and body of args, which has at least three
// elements, to r, and prints the response. A status of 400 or above is an error, after the body was
// printed. The request may take at most timeout.
func printResponse(ctx context.Context, w io.Writer, r *connect.Replica, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	target := r.BaseURL + "/" + strings.TrimPrefix(args[1], "/")
	request, err := http.NewRequestWithContext(ctx, strings.ToUpper(args[0]), target, strings.NewReader(args[2]))
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	response, err := (&http.Client{Transport: r.Transport}).Do(request)
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(w, response.Body); err != nil {
		return fmt.Errorf("read response of %s: %w", target, err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s responded %s", target, response.Status)
	}
	return nil
}
