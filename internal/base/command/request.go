package command

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// requestTimeout bounds one request of the request command. A configuration dump of a large mesh
// takes longer than a usual request.
const requestTimeout = time.Minute

// Request returns the request command, which calls an HTTP port and prints the response's body. The
// command fails if the status is 400 or higher (after printing), or after requestTimeout. address
// is the value of the flag --address, which the command adds with the present value as default.
func Request(short string, address *string) *cobra.Command {
	c := &cobra.Command{
		Use: "request METHOD PATH [BODY]", Short: short, Args: cobra.RangeArgs(2, 3),
		RunE: func(c *cobra.Command, args []string) error {
			var body io.Reader
			if len(args) == 3 {
				body = strings.NewReader(args[2])
			}
			url := "http://" + *address + "/" + strings.TrimPrefix(args[1], "/")
			r, err := http.NewRequestWithContext(c.Context(), strings.ToUpper(args[0]), url, body)
			if err != nil {
				return fmt.Errorf("request: %w", err)
			}
			response, err := (&http.Client{Timeout: requestTimeout}).Do(r)
			if err != nil {
				return fmt.Errorf("request: %w", err)
			}
			defer response.Body.Close()
			if _, err := io.Copy(c.OutOrStdout(), response.Body); err != nil {
				return fmt.Errorf("read response of %s: %w", url, err)
			}
			if response.StatusCode >= http.StatusBadRequest {
				return fmt.Errorf("%s responded %s", url, response.Status)
			}
			return nil
		},
	}
	c.Flags().StringVar(address, "address", *address, "host:port to connect to")
	return c
}
