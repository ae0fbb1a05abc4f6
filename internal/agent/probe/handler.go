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

// maxBody bounds how much of an application's answer is passed on; kubelet reads no more either.
const maxBody = 10 << 10

// Handler answers kubelet's probes at the status port by asking the application.
type Handler struct {
	Prober *Prober
	// Probes are by path.
	Probes map[string]Probe
	Log    *slog.Logger
}

var _ http.Handler = (*Handler)(nil)

// ServeHTTP answers with what the application says: its own status where it speaks HTTP, else 200 or 500.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	probe, ok := h.Probes[r.URL.Path]
	if !ok {
		http.Error(w, "no probe has this path", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), probe.Timeout)
	defer cancel()
	var err error
	switch {
	case probe.HTTP != nil:
		err = h.pass(ctx, w, r, probe.HTTP)
	case probe.GRPC != nil:
		err = h.Prober.checkGRPC(ctx, probe.GRPC, r.UserAgent())
	default:
		err = h.Prober.checkTCP(ctx, probe.TCP)
	}
	switch {
	case err != nil && r.Context().Err() == nil:
		h.Log.Debug("the application does not answer a probe", "probe", r.URL.Path, "error", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case err == nil && probe.HTTP == nil:
		w.WriteHeader(http.StatusOK)
	}
}

// pass passes a request with its headers on, and the answer back. A redirect that leads elsewhere is as good as any answer, and
// would need a Location here: it becomes 200.
func (h *Handler) pass(ctx context.Context, w http.ResponseWriter, r *http.Request, probe *HTTP) error {
	answer, err := h.Prober.get(ctx, probe, r.Header, hostFor(r, probe))
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
		h.Log.Debug("part of an answer to a probe is missing", "probe", r.URL.Path, "error", err) // the status is what counts
	}
	return nil
}

// hostFor is the Host that kubelet would have sent: the agent's port in it becomes the application's.
func hostFor(r *http.Request, probe *HTTP) string {
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
