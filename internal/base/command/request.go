package command

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const requestTimeout = 10 * time.Second

// Request is the request command: it calls a port of the program that runs beside it, and prints the answer.
func Request(short, defaultAddress string) *cobra.Command {
	var address string
	c := &cobra.Command{
		Use: "request METHOD PATH [BODY]", Short: short, Args: cobra.RangeArgs(2, 3),
		RunE: func(c *cobra.Command, args []string) error {
			var body io.Reader
			if len(args) == 3 {
				body = strings.NewReader(args[2])
			}
			url := "http://" + address + "/" + strings.TrimPrefix(args[1], "/")
			r, err := http.NewRequestWithContext(c.Context(), strings.ToUpper(args[0]), url, body)
			if err != nil {
				return fmt.Errorf("request: %w", err)
			}
			answer, err := (&http.Client{Timeout: requestTimeout}).Do(r)
			if err != nil {
				return fmt.Errorf("request: %w", err)
			}
			defer answer.Body.Close()
			if _, err := io.Copy(c.OutOrStdout(), answer.Body); err != nil {
				return fmt.Errorf("read answer of %s: %w", url, err)
			}
			if answer.StatusCode >= http.StatusBadRequest {
				return fmt.Errorf("%s answered %s", url, answer.Status)
			}
			return nil
		},
	}
	c.Flags().StringVar(&address, "address", defaultAddress, "where to ask")
	return c
}
