package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
)

// maxBodyBytes bounds one request: twice what an API server can store, because reviews contain the
// old and the new object.
const maxBodyBytes = 6 << 20

// readChunk is the step by which a request's buffer grows, so that small requests use little
// memory.
const readChunk = 64 << 10

// reviewFunc returns a webhook's response to a request. An error is an internal one, not the
// request's.
type reviewFunc func(
	ctx context.Context, path string, r *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, error)

// badRequest is an error of the client, with its HTTP status.
type badRequest struct {
	code int
	text string
}

// Error returns the text for the client.
func (b badRequest) Error() string { return b.text }

// reviewHandler returns an HTTP handler that passes AdmissionReviews to review, if they have at
// most about maxValues values. onError is called with the HTTP status of failed requests. Errors
// that are no badRequest are logged and answered with status 500.
//
// Versions v1 and v1beta1 of AdmissionReview have the same form, so one type decodes both. The
// response has the version of the request.
func (s *Server) reviewHandler(maxValues int, review reviewFunc, onError func(code int)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := s.handleReview(w, r, maxValues, review)
		if err != nil {
			code := http.StatusInternalServerError
			if b := (badRequest{}); errors.As(err, &b) {
				code = b.code
			} else {
				s.options.Log.Error("webhook request failed", "path", r.URL.Path, "err", err)
			}
			onError(code)
			http.Error(w, err.Error(), code)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(out) // an error means that the client is gone
	})
}

// handleReview reads, checks and decodes a request within the budget of bodies, has it reviewed and
// returns the encoded response. Faults of the client, also more than maxValues values, are errors
// of type badRequest; errOverloaded means that the budget or the workers are exhausted.
func (s *Server) handleReview(
	w http.ResponseWriter,
	r *http.Request,
	maxValues int,
	review reviewFunc,
) ([]byte, error) {
	if r.Method != http.MethodPost {
		return nil, badRequest{http.StatusMethodNotAllowed, "want POST"}
	}
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return nil, badRequest{http.StatusUnsupportedMediaType, "invalid Content-Type, want `application/json`"}
	}
	reserved := s.bodies.reserve(func() {
		// a pending read fails now
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	})
	defer reserved.close()
	body, err := readBody(r, reserved)
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return nil, badRequest{http.StatusBadRequest, "no body found"}
	}
	if exceedsValueLimit(body, maxValues) {
		return nil, badRequest{
			http.StatusRequestEntityTooLarge,
			fmt.Sprintf("the object has more than %d values", maxValues),
		}
	}
	if len(body) > largeBodyBytes { // before a worker is acquired: waiting must not occupy one
		if err := s.large.Acquire(r.Context(), 1); err != nil {
			return nil, errOverloaded
		}
		defer s.large.Release(1)
	}
	if err := s.workers.Acquire(r.Context(), 1); err != nil {
		return nil, errOverloaded
	}
	defer s.workers.Release(1)
	if !reserved.markStarted() {
		return nil, errOverloaded
	}
	in := admissionv1.AdmissionReview{}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, badRequest{http.StatusBadRequest, "could not decode body: " + err.Error()}
	}
	if in.Request == nil {
		return nil, badRequest{http.StatusBadRequest, "could not decode body: want an AdmissionReview with a request"}
	}
	response, err := s.callWithRecovery(r.Context(), r.URL.Path, in.Request, review)
	if err != nil {
		return nil, err
	}
	response.UID = in.Request.UID
	return json.Marshal(admissionv1.AdmissionReview{TypeMeta: in.TypeMeta, Response: response})
}

// callWithRecovery returns what review returns. A panic is recorded, if there is a recorder, and
// returned as an error, so that a defect affects one request only.
func (s *Server) callWithRecovery(
	ctx context.Context,
	path string,
	r *admissionv1.AdmissionRequest,
	review reviewFunc,
) (out *admissionv1.AdmissionResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			if s.options.Recovery != nil {
				_ = s.options.Recovery.Record(p, "webhook", "path", path,
					"object", r.Kind.Kind+"/"+r.Namespace+"/"+r.Name)
			}
			err = fmt.Errorf("panic during the review of %s %s/%s: %v\n%s", r.Kind.Kind,
				r.Namespace, r.Name, p, debug.Stack())
		}
	}()
	return review(ctx, path, r)
}

// errOverloaded is returned for a request that was canceled in favor of newer ones, or that found
// no memory or no worker.
var errOverloaded = badRequest{http.StatusServiceUnavailable, "too many requests at a time"}

// readBody reads a body in chunks and reserves the memory of each chunk first. It returns a
// badRequest if the body exceeds maxBodyBytes, is late or cannot be read. It returns errOverloaded
// if no memory can be reserved, or the request was evicted in favor of another.
func readBody(r *http.Request, reserved *bodyReservation) ([]byte, error) {
	var body []byte
	for {
		if len(body) > maxBodyBytes {
			return nil, badRequest{
				http.StatusRequestEntityTooLarge,
				fmt.Sprintf("the body has more than %d bytes", maxBodyBytes),
			}
		}
		if !reserved.grow(readChunk) {
			return nil, errOverloaded
		}
		body = slices.Grow(body, readChunk)
		n, err := io.ReadFull(r.Body, body[len(body):len(body)+readChunk])
		body = body[:len(body)+n]
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			if len(body) > maxBodyBytes {
				continue
			}
			return body, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			if reserved.wasEvicted() {
				return nil, errOverloaded
			}
			return nil, badRequest{http.StatusRequestTimeout, "the body did not arrive in time"}
		default:
			return nil, badRequest{http.StatusBadRequest, "could not read body: " + err.Error()}
		}
	}
}

// exceedsValueLimit estimates, from commas and opening brackets, whether JSON has more than limit
// values, before it is decoded. Three bytes can request a container, which takes a thousand bytes
// once decoded. Characters in strings are not counted.
func exceedsValueLimit(body []byte, limit int) bool {
	n, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '{' || c == '['):
			n++
		}
	}
	return n > limit
}
