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
	"time"

	admissionv1 "k8s.io/api/admission/v1"
)

// maxBody bounds one request, in bytes: twice what an API server can store, for reviews hold old and new object.
const maxBody = 6 << 20

// chunk is by how much the memory for a request grows: a client that sends little holds little.
const chunk = 64 << 10

// answer is what a webhook says to a request. An error is the control plane's own, not the request's.
type answer func(ctx context.Context, path string, r *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error)

// badRequest is an error of the client's.
type badRequest struct {
	code int
	text string
}

func (b badRequest) Error() string { return b.text }

// review makes an HTTP handler of an answer. failed is told the HTTP status of what could not be answered.
//
// Versions v1 and v1beta1 of AdmissionReview have the same form, so that one type reads both; the answer is of the version of
// the question.
func (s *Server) review(maxValues int, a answer, failed func(code int)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := s.respond(w, r, maxValues, a)
		if err != nil {
			code := http.StatusInternalServerError
			if b := (badRequest{}); errors.As(err, &b) {
				code = b.code
			} else {
				s.options.Log.Error("a webhook could not answer", "path", r.URL.Path, "err", err)
			}
			failed(code)
			http.Error(w, err.Error(), code)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(out) // the client went away
	})
}

func (s *Server) respond(w http.ResponseWriter, r *http.Request, maxValues int, a answer) ([]byte, error) {
	if r.Method != http.MethodPost {
		return nil, badRequest{http.StatusMethodNotAllowed, "want POST"}
	}
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return nil, badRequest{http.StatusUnsupportedMediaType, "invalid Content-Type, want `application/json`"}
	}
	reserved := s.bodies.open(func() {
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // a pending read fails now
	})
	defer reserved.close()
	body, err := read(r, reserved)
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return nil, badRequest{http.StatusBadRequest, "no body found"}
	}
	if tooMany(body, maxValues) {
		return nil, badRequest{http.StatusRequestEntityTooLarge, fmt.Sprintf("the object has more than %d values", maxValues)}
	}
	if err := s.working.Acquire(r.Context(), 1); err != nil {
		return nil, errOverloaded
	}
	defer s.working.Release(1)
	if !reserved.start() {
		return nil, errOverloaded
	}
	in := admissionv1.AdmissionReview{}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, badRequest{http.StatusBadRequest, "could not decode body: " + err.Error()}
	}
	if in.Request == nil {
		return nil, badRequest{http.StatusBadRequest, "could not decode body: it is no AdmissionReview with a request"}
	}
	response, err := s.safely(r.Context(), r.URL.Path, in.Request, a)
	if err != nil {
		return nil, err
	}
	response.UID = in.Request.UID
	return json.Marshal(admissionv1.AdmissionReview{TypeMeta: in.TypeMeta, Response: response})
}

// safely turns a panic into an error: it is a defect, and must end one request only.
func (s *Server) safely(ctx context.Context, path string, r *admissionv1.AdmissionRequest, a answer) (out *admissionv1.AdmissionResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			if s.options.Recovery != nil {
				_ = s.options.Recovery.Record(p, "webhook", "path", path, "object", r.Kind.Kind+"/"+r.Namespace+"/"+r.Name)
			}
			err = fmt.Errorf("panic over %s %s/%s: %v\n%s", r.Kind.Kind, r.Namespace, r.Name, p, debug.Stack())
		}
	}()
	return a(ctx, path, r)
}

// errOverloaded is the answer to a request that was cancelled for newer ones.
var errOverloaded = badRequest{http.StatusServiceUnavailable, "too many requests at a time"}

// read reads a body in chunks, for each of which it reserves memory first. It stops as soon as the body exceeds maxBody.
func read(r *http.Request, reserved *body) ([]byte, error) {
	var body []byte
	for {
		if len(body) > maxBody {
			return nil, badRequest{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", maxBody)}
		}
		if !reserved.grow(chunk) {
			return nil, errOverloaded
		}
		part := make([]byte, chunk)
		n, err := io.ReadFull(r.Body, part)
		body = append(body, part[:n]...)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			if len(body) > maxBody {
				continue
			}
			return body, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, badRequest{http.StatusRequestTimeout, "the body did not arrive in time"}
		default:
			return nil, badRequest{http.StatusBadRequest, "could not read body: " + err.Error()}
		}
	}
}

// tooMany reports whether JSON has more than so many values. Three bytes can ask for a container, which takes a thousand: this is
// known before anything is decoded.
func tooMany(body []byte, limit int) bool {
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
