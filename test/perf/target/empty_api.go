package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
)

// EmptyAPI imitates a Kubernetes API server without any objects. istiod does not start without one, also
// if all its configuration comes from files.
type EmptyAPI struct {
	server http.Server
	done   chan error
}

// StartEmptyAPI starts one on a free port of 127.0.0.1 and writes a kubeconfig for it.
func StartEmptyAPI(kubeconfig string) (*EmptyAPI, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: empty, cluster: {server: "http://%s"}}]
users: [{name: empty, user: {}}]
contexts: [{name: empty, context: {cluster: empty, user: empty}}]
current-context: empty
`, l.Addr())
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &EmptyAPI{done: make(chan error, 1)}
	a.server.Handler = http.HandlerFunc(answerEmpty)
	a.server.BaseContext = func(net.Listener) context.Context { return ctx }
	a.server.RegisterOnShutdown(cancel) // ends the watches
	go func() { a.done <- a.server.Serve(l) }()
	return a, nil
}

// Close ends the server with its watches, and waits for it.
func (a *EmptyAPI) Close() error {
	err := a.server.Shutdown(context.Background())
	if served := <-a.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// answerEmpty answers lists without items and watches without events. Single objects do not exist, and
// none can be written.
func answerEmpty(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	answer := func(status int, body map[string]any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body) // the client may be gone
	}
	fail := func(status int, reason string) {
		answer(status, map[string]any{
			"kind":       "Status",
			"apiVersion": "v1",
			"status":     "Failure",
			"reason":     reason,
			"code":       status,
		})
	}
	switch {
	case r.Method != http.MethodGet:
		fail(http.StatusNotFound, "NotFound")
	case r.URL.Path == "/version":
		answer(http.StatusOK, map[string]any{"major": "1", "minor": "35", "gitVersion": "v1.35.0"})
	case query.Has("sendInitialEvents"): // clients then list and watch
		fail(http.StatusUnprocessableEntity, "Invalid")
	case query.Has("watch"):
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case r.URL.RawQuery != "": // a list: clients name a version or a limit
		answer(http.StatusOK, map[string]any{
			"kind": "List", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{},
		})
	case strings.Count(r.URL.Path, "/") <= 3 && strings.HasPrefix(r.URL.Path, "/api"):
		answer(http.StatusOK, map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{}})
	default:
		fail(http.StatusNotFound, "NotFound")
	}
}
