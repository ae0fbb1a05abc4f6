package service

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"
)

// maxAnswer bounds what is read of another service's answer, in bytes.
const maxAnswer = 1 << 20

// upstream calls other services.
type upstream struct {
	client *http.Client
	log    *slog.Logger
}

func newUpstream(log *slog.Logger) *upstream {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	// No proxy from the environment: what stands in the way is the sidecar, unseen.
	return &upstream{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}, log: log}
}

// get reads the JSON of url into v. The status is that of the answer, 0 when there was none in time;
// only 200 is no error.
func (u *upstream) get(
	ctx context.Context,
	url string,
	header http.Header,
	timeout time.Duration,
	v any,
) (status int, err error) {
	defer func() {
		if err != nil {
			u.log.Warn("call failed", "url", url, "status", status, "err", err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	req.Header = header
	resp, err := u.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, fmt.Errorf("reading the answer of %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, fmt.Errorf("%s answered %s", url, resp.Status)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return resp.StatusCode, fmt.Errorf("reading the answer of %s: %w", url, err)
	}
	return resp.StatusCode, nil
}
