package readapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// readTimeout limits the time of a request without HTTP.
const readTimeout = 10 * time.Second

// reasonStream is the answer to a request for a stream of events without HTTP.
const reasonStream = "streams of events are not served over xDS: use an HTTP port, or read the resource itself repeatedly"

// isStream reports whether a path is that of a stream of events.
func isStream(path string) bool {
	return strings.HasSuffix(path, "/events") || strings.HasSuffix(path, "/rollout")
}

// Read returns the answer to a GET request without HTTP, for callers over xDS, within readTimeout.
// resource is a path that begins with Prefix, with a query. The other replicas are asked without
// credentials of the caller. A list may be one of the last seconds (isFresh). It returns a
// debug.Refusal for a stream of events, and if the status is not 200.
func (a *API) Read(resource string, caller debug.Caller) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), callerKey{}, caller), readTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+resource, nil)
	if err != nil {
		return nil, debug.Refusal{Status: http.StatusBadRequest, Reason: fmt.Sprintf("%q: %v", resource, err)}
	}
	if isStream(r.URL.Path) {
		return nil, debug.Refusal{Status: http.StatusNotImplemented, Reason: reasonStream}
	}
	answer := &recordedAnswer{header: http.Header{}, status: http.StatusOK}
	if isList(r.URL.Path) && !isFresh(r, caller) {
		kept, _ := a.answers.entryFor(newAudience(caller, "", resource)).get(a, r)
		kept.write(answer, false)
	} else {
		a.mux.ServeHTTP(answer, r)
	}
	if answer.status == http.StatusOK {
		return answer.body.Bytes(), nil
	}
	var problem struct {
		Detail string `json:"detail"`
	}
	if json.Unmarshal(answer.body.Bytes(), &problem) != nil || problem.Detail == "" {
		problem.Detail = strings.TrimSpace(answer.body.String()) // of a path that the API does not have
	}
	return nil, debug.Refusal{Status: answer.status, Reason: problem.Detail}
}
