package command

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// waitCommand returns the command that polls the readiness URL until the proxy is ready. After
// --timeoutSeconds it fails with the last error, and if the program is interrupted it fails at
// once. Containers that need the proxy run it first.
func waitCommand() *cobra.Command {
	var url string
	var timeoutSeconds, periodMillis, requestTimeoutMillis int
	c := &cobra.Command{
		Use: "wait", Short: "Wait until the proxy is ready", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), time.Duration(timeoutSeconds)*time.Second)
			defer cancel()
			client := &http.Client{
				Timeout:   time.Duration(requestTimeoutMillis) * time.Millisecond,
				Transport: &http.Transport{Proxy: nil},
			}
			tick := time.NewTicker(time.Duration(max(periodMillis, 1)) * time.Millisecond)
			defer tick.Stop()
			var last error // the last error before the timeout
			for {
				err := checkReady(ctx, client, url)
				if err == nil {
					c.Println("the proxy is ready")
					return nil
				}
				if c.Context().Err() != nil { // interrupted
					return fmt.Errorf("wait for the proxy: %w", c.Context().Err())
				}
				if last == nil || ctx.Err() == nil {
					last = err
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
					return fmt.Errorf("the proxy is not ready after %d s: %w", timeoutSeconds, last)
				}
			}
		},
	}
	c.Flags().StringVar(&url, "url", "http://localhost:15021/healthz/ready", "readiness URL to poll")
	c.Flags().IntVar(&timeoutSeconds, "timeoutSeconds", 60, "how long to wait")
	c.Flags().IntVar(&periodMillis, "periodMillis", 500, "time between requests")
	c.Flags().IntVar(&requestTimeoutMillis, "requestTimeoutMillis", 500, "timeout of each request")
	return c
}

// checkReady requests the URL and returns nil for status 200, and otherwise an error.
func checkReady(ctx context.Context, client *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, answer.Status)
	}
	return nil
}
