package status

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/common/expfmt"
)

// textFormat is the format of the merged metrics unless the application's are OpenMetrics.
const textFormat expfmt.Format = "text/plain; version=" + expfmt.TextVersion + "; charset=utf-8"

// scrape is the result of reading one of the application's endpoints.
type scrape struct {
	name   string
	text   []byte
	format expfmt.Format
	err    error
}

// readApplications reads all endpoints of the application, and returns their metrics and their
// common format. In OpenMetrics the mark of the end is removed from each. If the formats differ,
// all in OpenMetrics are read again in the text format, and left out if they have only OpenMetrics.
// Failures are left out, logged and counted; if no endpoint is left, the format is textFormat.
func (m *merger) readApplications(r *http.Request) (expfmt.Format, [][]byte) {
	var list []scrape
	for _, a := range m.Applications {
		url := "http://" + net.JoinHostPort("localhost", strconv.FormatUint(uint64(a.Port), 10)) + a.Path
		list = append(list, m.scrapeApplication(r, url, acceptableFormats(r.Header.Get("Accept"))))
	}
	format := commonFormat(list)
	var texts [][]byte
	for _, s := range list {
		if s.err == nil && s.format != format {
			s = m.scrapeApplication(r, s.name, string(textFormat))
		}
		if s.err == nil && s.format != format {
			s.err = fmt.Errorf("%s has only OpenMetrics, which cannot be merged with the text format of others", s.name)
		}
		if m.recordResult("application", "application "+s.name, s.err); s.err == nil {
			texts = append(texts, withoutEnd(s.text))
		}
	}
	return format, texts
}

// commonFormat returns the format of all scrapes that have not failed, or textFormat if they differ
// or there is none.
func commonFormat(list []scrape) expfmt.Format {
	var format expfmt.Format
	for _, s := range list {
		switch {
		case s.err != nil:
		case format == "":
			format = s.format
		case s.format != format:
			return textFormat
		}
	}
	if format == "" {
		return textFormat
	}
	return format
}

// scrapeApplication reads the endpoint at url within timeoutOf the request r. accept are the
// formats to request. A failure is in the result.
func (m *merger) scrapeApplication(r *http.Request, url, accept string) scrape {
	ctx, cancel := context.WithTimeout(r.Context(), timeoutOf(r))
	defer cancel()
	text, format, err := m.readApplication(ctx, url, accept, r)
	return scrape{url, text, format, err}
}

// readApplication returns the metrics of the application at url and their format. It fails for
// another status than 200, the content types HTML and JSON, and more than m.limit bytes. User-Agent
// and the scrape timeout of asked are passed on.
func (m *merger) readApplication(
	ctx context.Context, url, accept string, asked *http.Request,
) ([]byte, expfmt.Format, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, "", err
	}
	request.Header.Set("Accept", accept)
	for _, name := range []string{"User-Agent", scrapeTimeoutHeader} {
		if v := asked.Header.Get(name); v != "" {
			request.Header.Set(name, v)
		}
	}
	answer, err := m.client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, "", fmt.Errorf("%s responded %s", url, answer.Status)
	}
	format, err := formatOf(answer.Header.Get("Content-Type"))
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", url, err)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, m.limit+1))
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", url, err)
	}
	if int64(len(text)) > m.limit {
		return nil, "", fmt.Errorf("response of %s exceeds %d bytes", url, m.limit)
	}
	return text, format, nil
}

var errNoMetrics = errors.New("the content type is not that of metrics")

// formatOf returns the format of metrics with this content type. It fails for HTML and JSON, which
// would invalidate the whole output. Other content types are taken as the text format, because some
// applications set a wrong one or none.
func formatOf(contentType string) (expfmt.Format, error) {
	kind, parameters, _ := mime.ParseMediaType(contentType)
	switch kind {
	case expfmt.OpenMetricsType:
		return openMetricsFormat(parameters["version"]), nil
	case "text/html", "application/json":
		return "", fmt.Errorf("%w: %s", errNoMetrics, kind)
	default:
		return textFormat, nil
	}
}

// openMetricsFormat returns the OpenMetrics format of version 1.0.0, or for any other version the
// oldest one, 0.0.1.
func openMetricsFormat(version string) expfmt.Format {
	if version != expfmt.OpenMetricsVersion_1_0_0 {
		version = expfmt.OpenMetricsVersion_0_0_1
	}
	return expfmt.Format(expfmt.OpenMetricsType + "; version=" + version + "; charset=utf-8")
}

// acceptableFormats returns the Accept header for the application: the formats that the scraper
// accepts and that can be merged, in its order and with its weights, without duplicates. It is the
// text format if there are none. Protobuf cannot be merged, and escaping of names is left at the
// default.
func acceptableFormats(accept string) string {
	var list []string
	known := map[expfmt.Format]bool{}
	for one := range strings.SplitSeq(accept, ",") {
		kind, parameters, _ := mime.ParseMediaType(one)
		var format expfmt.Format
		switch kind {
		case "text/plain", "text/*", "*/*":
			format = textFormat
		case expfmt.OpenMetricsType, "application/*":
			format = openMetricsFormat(parameters["version"])
		}
		if format == "" || known[format] {
			continue
		}
		known[format] = true
		text := string(format)
		if q := parameters["q"]; q != "" {
			text += "; q=" + q
		}
		list = append(list, text)
	}
	if len(list) == 0 {
		return string(textFormat)
	}
	return strings.Join(list, ", ")
}

// withoutEnd returns metrics without the mark "# EOF" of the end of OpenMetrics, if they have it.
func withoutEnd(text []byte) []byte {
	rest, found := bytes.CutSuffix(bytes.TrimRight(text, " \t\r\n"), []byte("# EOF"))
	if !found || len(rest) > 0 && !bytes.HasSuffix(rest, []byte("\n")) {
		return text
	}
	return rest
}

// asOpenMetrics returns metrics in the text format such that Prometheus's parser of OpenMetrics
// accepts them: without empty lines and free comments, and with the type unknown for untyped. The
// names stay, although OpenMetrics requires a suffix for counters, because queries depend on them.
func asOpenMetrics(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for line := range bytes.Lines(text) {
		content := bytes.TrimSpace(line)
		switch {
		case len(content) == 0:
		case content[0] != '#':
			out = append(out, line...)
		case bytes.HasPrefix(content, []byte("# TYPE ")):
			if kind, found := bytes.CutSuffix(content, []byte(" untyped")); found {
				line = append(bytes.Clone(kind), " unknown\n"...)
			}
			out = append(out, line...)
		case bytes.HasPrefix(content, []byte("# HELP ")):
			out = append(out, line...)
		}
	}
	return out
}
