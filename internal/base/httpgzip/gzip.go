// Package httpgzip compresses HTTP responses that are made once and sent to many clients.
//
// The input is the text of a response; the output is the text in gzip ([Compress]), and whether a
// client accepts that ([IsAccepted]). It depends on nothing else. Responses must not mix secrets
// with text of the client, because their length depends on both.
package httpgzip

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
)

// IsAccepted reports whether the client of a request accepts a response that is compressed with
// gzip. The first gzip in Accept-Encoding, in upper or lower case, decides. It returns false if
// there is none, even with *, or if its quality is 0.
func IsAccepted(r *http.Request) bool {
	for coding := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, quality, weighted := strings.Cut(strings.ReplaceAll(coding, " ", ""), ";q=")
		if strings.EqualFold(name, "gzip") {
			return !weighted || strings.Trim(quality, "0.") != ""
		}
	}
	return false
}

// Compress returns text compressed with gzip, quickly rather than well.
func Compress(text []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		panic(err) // an unknown level
	}
	_, _ = w.Write(text) // a buffer has no errors
	_ = w.Close()
	return b.Bytes()
}
