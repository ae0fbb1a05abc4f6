package status

import (
	"bytes"
	"slices"

	"github.com/meshpilot/meshpilot/internal/agent/node"
)

// Envoy's metrics of requests and connections encode all of Istio's labels in one label, as the
// control plane configures them (internal/translate/telemetry):
// "r=s|c=200|s=HOST;NAME;NAMESPACE|p=WORKLOAD;NAMESPACE;…|…". With a label each, Envoy would need
// more than three times as long. This package expands them under the names that Istio's users know:
// "envoy_istio_rx_count{standard="…"}" becomes "istio_request_bytes_count{reporter="source",…}".
const (
	envoyPrefix   = "envoy_"
	istioPrefix   = "istio_"
	standardLabel = "standard"
	// removedValue is the value of a label, or of a field in the record, that a user has removed.
	removedValue = "!"
	unknown      = "unknown"
)

// labeler rewrites Envoy's metrics to Istio's names and labels. It serves a single scrape: it
// caches expanded labels and reuses its buffers.
type labeler struct {
	ownLabels ownLabels
	// requests and connections cache expansions by Envoy's labels.
	requests, connections map[string]expansion
	// text holds all expansions. parsed and values are buffers of the current expansion.
	text   []byte
	parsed []label
	values labelValues

	// declared and kind are the name and type of the Envoy metric whose lines are being read.
	declared, kind string
	current        *metricFamily
	// families are Istio's metrics in the order of their first lines.
	families []*metricFamily
	byName   map[string]*metricFamily
}

// expansion is the result of expanding a series' labels, and whether the series counts opened or
// closed connections.
type expansion struct {
	from, to       int // in labeler.text
	opened, closed bool
}

// metricFamily collects all lines of one metric, which must be contiguous though several of Envoy's
// metrics contribute to it.
type metricFamily struct {
	name  string
	lines []byte
}

// newLabeler returns a labeler without metrics, for one scrape of the workload own.
func newLabeler(own node.Workload) *labeler {
	return &labeler{
		ownLabels: newOwnLabels(own), requests: map[string]expansion{}, connections: map[string]expansion{},
		byName: map[string]*metricFamily{},
	}
}

// rewriteMetrics returns text, the metrics of Envoy, with Istio's metrics moved to the end and
// rewritten to Istio's names and labels. A text without Istio's metrics is returned as it is.
func (l *labeler) rewriteMetrics(text []byte) []byte {
	if !bytes.Contains(text, []byte(envoyPrefix+istioPrefix)) {
		return text
	}
	out := make([]byte, 0, len(text))
	for line := range bytes.Lines(text) {
		rest, comment := bytes.CutPrefix(line, []byte("# TYPE "))
		metric, ours := bytes.CutPrefix(rest, []byte(envoyPrefix))
		switch {
		case !ours || !bytes.HasPrefix(metric, []byte(istioPrefix)):
			out = append(out, line...)
		case comment:
			l.startMetric(string(bytes.TrimSuffix(metric, []byte("\n"))))
		default:
			l.rewriteLine(bytes.TrimSuffix(metric, []byte("\n")))
		}
	}
	size := 0
	for _, f := range l.families {
		size += len(f.lines)
	}
	out = slices.Grow(out, size)
	for _, f := range l.families {
		out = append(out, f.lines...)
	}
	return out
}

// familyNamed returns the metric of a name. If there is none, it adds one, with a TYPE line unless
// kind is "".
func (l *labeler) familyNamed(name, kind string) *metricFamily {
	f := l.byName[name]
	if f == nil {
		f = &metricFamily{name: name}
		l.byName[name], l.families = f, append(l.families, f)
		if kind != "" {
			f.lines = append(f.lines, "# TYPE "+name+" "+kind+"\n"...)
		}
	}
	return f
}

// rewriteLine adds a line "NAME{LABELS} VALUE" to its metrics, with Istio's labels; NAME lacks the
// prefix envoyPrefix. A line without labels is added unchanged to the metric of its name.
func (l *labeler) rewriteLine(line []byte) {
	begin, end := bytes.IndexByte(line, '{'), bytes.LastIndexByte(line, '}')
	if begin < 0 || end < begin {
		name, value, _ := bytes.Cut(line, []byte(" "))
		f := l.familyNamed(string(name), "")
		f.lines = append(append(append(append(f.lines, name...), ' '), value...), '\n')
		return
	}
	labels, bucket := line[begin+1:end], []byte(nil)
	// le is the only label that differs within a histogram.
	if i := bytes.LastIndex(labels, []byte(`le="`)); i == 0 || i > 0 && labels[i-1] == ',' {
		labels, bucket = bytes.TrimSuffix(labels[:i], []byte(",")), labels[i:]
	}
	l.addLine(line[:begin], labels, bucket, line[end+1:])
}

// addLine appends a line to the metric. suffix is "_bucket" or similar, bucket the label "le"; both
// may be empty. value begins with its space.
func (f *metricFamily) addLine(suffix, labels, bucket, value []byte) {
	f.lines = slices.Grow(f.lines, len(f.name)+len(suffix)+len(labels)+len(bucket)+len(value)+4)
	f.lines = append(append(append(append(f.lines, f.name...), suffix...), '{'), labels...)
	if len(labels) > 0 && len(bucket) > 0 {
		f.lines = append(f.lines, ',')
	}
	f.lines = append(append(append(append(f.lines, bucket...), '}'), value...), '\n')
}

// expandLabels returns the expansion of Envoy's labels and its text, which is written at the first
// call for these labels. connection selects connection labels instead of request labels. Other
// labels are kept, with empty values replaced by Istio's "unknown".
func (l *labeler) expandLabels(labels []byte, connection bool) (expansion, []byte) {
	seen := l.requests
	if connection {
		seen = l.connections
	}
	x, ok := seen[string(labels)]
	if !ok {
		key := string(labels)
		x = l.writeExpansion(key, connection)
		seen[key] = x
	}
	return x, l.text[x.from:x.to]
}

// writeExpansion appends the expansion of the labels in text to l.text. It returns its position,
// and whether the record counts an opened or a closed connection. The expansion consists of the
// standard labels in the record, unless removed or set explicitly, and all other labels, with
// "unknown" for empty values. Labels without a record are appended unchanged.
func (l *labeler) writeExpansion(text string, connection bool) expansion {
	x := expansion{from: len(l.text)}
	l.parsed = parseLabels(l.parsed[:0], text)
	i := labelPosition(l.parsed, standardLabel)
	if i < 0 {
		l.text = append(l.text, text...)
		x.to = len(l.text)
		return x
	}
	r := parseRecord(l.parsed[i].value)
	x.opened, x.closed = r.countsOpened(), r.countsClosed()
	l.values.setAll(&r, &l.ownLabels, connection)
	for n, v := range l.values {
		if name := labelName(n); v.set && v.text != removedValue && labelPosition(l.parsed, name) < 0 {
			l.appendLabel(x.from, name, v.text)
		}
	}
	for j, p := range l.parsed {
		if j != i {
			l.appendLabel(x.from, p.name, orUnknown(p.value))
		}
	}
	x.to = len(l.text)
	return x
}

// appendLabel appends a label to the expansion that begins at from, after a comma unless it is the
// expansion's first. The value must be escaped already.
func (l *labeler) appendLabel(from int, name, value string) {
	if len(l.text) > from {
		l.text = append(l.text, ',')
	}
	l.text = append(append(append(append(l.text, name...), `="`...), value...), '"')
}
