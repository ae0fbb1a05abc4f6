package probe

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
)

// maxBody bounds how much of an application's response is forwarded. The kubelet reads no more
// either.
const maxBody = 10 << 10

// Handler serves the kubelet's probes at the status port by probing the application.
type Handler struct {
	Prober *Prober
	// Probes maps request paths to probes.
	Probes map[string]Probe
	Log    *slog.Logger
}

var _ http.Handler = (*Handler)(nil)

// ServeHTTP probes the application within the probe's timeout, if it has one. It forwards the
// response of an HTTP probe; other probes result in 200 or 500. An unknown path is 400, and a
// failed connection 500. If the client has gone, it writes nothing.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	probe, ok := h.Probes[r.URL.Path]
	if !ok {
		http.Error(w, "no probe has this path", http.StatusBadRequest)
		return
	}
	ctx := r.Context()
	if probe.Timeout > 0 {
		timed, cancel := context.WithTimeout(ctx, probe.Timeout)
		defer cancel()
		ctx = timed
	}
	var err error
	switch {
	case probe.HTTP != nil:
		err = h.proxyHTTP(ctx, w, r, probe.HTTP)
	case probe.GRPC != nil:
		err = h.Prober.checkGRPC(ctx, probe.GRPC, r.UserAgent())
	default:
		err = h.Prober.checkTCP(ctx, probe.TCP)
	}
	switch {
	case err != nil && r.Context().Err() == nil:
		h.Log.Debug("probe of the application failed", "probe", r.URL.Path, "error", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case err == nil && probe.HTTP == nil:
		w.WriteHeader(http.StatusOK)
	}
}

// proxyHTTP forwards a request with its headers to the application. It writes the response's status
// and at most maxBody bytes of its body to w, but no headers. A redirect that was not followed
// becomes 200 without a body: it means healthy, and would otherwise need a Location header. It
// returns an error, and writes nothing, if the application does not answer.
func (h *Handler) proxyHTTP(ctx context.Context, w http.ResponseWriter, r *http.Request, probe *HTTP) error {
	answer, err := h.Prober.httpGet(ctx, probe, r.Header, applicationHost(r, probe))
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode >= http.StatusMultipleChoices && answer.StatusCode < http.StatusBadRequest {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	w.WriteHeader(answer.StatusCode)
	if _, err := io.CopyN(w, answer.Body, maxBody); err != nil && !errors.Is(err, io.EOF) {
		h.Log.Debug("probe response truncated", "probe", r.URL.Path, "error", err) // only the status matters
	}
	return nil
}

// applicationHost returns the Host header that the kubelet would have sent to the application: the
// agent's port is replaced by the probe's. A Host with another port, or without one, is returned
// unchanged.
func applicationHost(r *http.Request, probe *HTTP) string {
	host, number, err := net.SplitHostPort(r.Host)
	own, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if err != nil || own == nil {
		return r.Host
	}
	if _, status, err := net.SplitHostPort(own.String()); err != nil || status != number {
		return r.Host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(probe.Port)))
}
