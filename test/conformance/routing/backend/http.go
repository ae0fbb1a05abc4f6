package backend

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// attempt is the scripted outcome of one attempt of a request.
type attempt struct {
	status int // 0: the connection is reset
	after  time.Duration
	header string // a header of the answer, "name=value"
}

// attemptOf parses the n-th of "503 200+300ms reset". The last one is repeated.
func attemptOf(text string, n int) attempt {
	words := strings.Fields(text)
	if len(words) == 0 {
		return attempt{status: http.StatusOK}
	}
	word := words[min(n, len(words)-1)]
	word, header, _ := strings.Cut(word, ";")
	status, after, _ := strings.Cut(word, "+")
	a := attempt{header: header}
	a.status, _ = strconv.Atoi(status) // "reset" is 0
	a.after, _ = time.ParseDuration(after)
	return a
}

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	seen := Sighting{
		ID: r.Header.Get(
			IDHeader,
		),
		Method:    r.Method,
		Path:      r.RequestURI,
		Authority: r.Host,
		Protocol:  r.Proto,
		Header:    r.Header.Clone(),
	}
	if a, ok := local.(arrival); ok {
		seen.Instance, seen.TLS, seen.ServerName = hostOf(a.Addr), a.encrypted, a.serverName
	}
	seen = s.memory.recordSighting(seen)
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		s.serveWebSocket(w, seen)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	a := attemptOf(r.Header.Get(AnswerHeader), seen.Attempt)
	select {
	case <-time.After(a.after):
	case <-r.Context().Done():
		return
	}
	if a.status == 0 {
		panic(http.ErrAbortHandler) // resets the connection, or the stream
	}
	if name, value, ok := strings.Cut(a.header, "="); ok {
		w.Header().Set(name, value)
	}
	s.writeAnswer(w, r, seen, a.status)
}

// writeAnswer returns the observed request, with some headers for rules to change.
func (s *Server) writeAnswer(w http.ResponseWriter, r *http.Request, seen Sighting, status int) {
	body, err := json.Marshal(seen)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("X-Server-A", "a")
	h.Set("X-Server-B", "b")
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		h.Set("Content-Type", "application/grpc")
		h.Set("X-Seen", string(body))
		h.Set("Trailer", "Grpc-Status")
		code := "0"
		if status != http.StatusOK {
			code = strconv.Itoa(status) // of gRPC, then
		}
		w.WriteHeader(http.StatusOK)
		h.Set("Grpc-Status", code)
		return
	}
	h.Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// serveWebSocket switches protocols and then answers each line with the observed request.
func (s *Server) serveWebSocket(w http.ResponseWriter, seen Sighting) {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		http.Error(w, "no websocket over this protocol", http.StatusNotImplemented)
		return
	}
	c, buffered, err := hijacker.Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if _, err := buffered.ReadString('\n'); err != nil {
		return
	}
	_ = json.NewEncoder(c).Encode(seen)
}
