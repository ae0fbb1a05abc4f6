package render

// place is where in YAML a byte would stand.
type place int

const (
	lineStart   place = iota // before the first character of a line, indentation and dashes aside
	valueStart               // where a value may begin: behind a colon, or in a flow collection
	plain                    // inside of a scalar without quotes
	double                   // inside of double quotes
	single                   // inside of single quotes
	singleQuote              // behind a quote that ends single quotes, unless another one follows
	closed                   // behind closing quotes
	comment                  // behind a #
	blockHeader              // behind | or >, up to the end of the line
	block                    // inside of a block scalar
)

// position follows YAML byte by byte, as far as is needed to know what a value that is put there could be taken for. It
// knows collections in block and flow style, and scalars of all styles; of a document that is not YAML it says something,
// which does not matter, for that document is refused afterwards.
type position struct {
	place place
	prev  byte
	// escaped says that the last byte was a backslash in double quotes.
	escaped bool
	// column is how many bytes the line has; node that of the innermost dash or key of the line: what a block scalar of it is
	// indented beyond. dash says that a dash may just have begun an item.
	column, node int
	dash         bool
	// inner is the column beyond which a block scalar reaches; indenting says that only spaces came so far on its line.
	inner     int
	indenting bool
	// flow is how many flow collections are open.
	flow int
}

// next takes one more byte.
func (p *position) next(c byte) {
	if c == '\n' {
		p.endLine()
		p.column, p.prev = 0, c
		return
	}
	switch p.place {
	case block:
		p.inBlock(c)
	case lineStart:
		p.beginLine(c)
	case valueStart:
		p.begin(c)
	case plain, closed:
		p.inPlain(c)
	case double:
		p.inDouble(c)
	case single:
		if c == '\'' {
			p.place = singleQuote
		}
	case singleQuote:
		if c == '\'' {
			p.place = single
		} else {
			p.place = closed
			p.inPlain(c)
		}
	}
	p.column++
	p.prev = c
}

func (p *position) endLine() {
	switch p.place {
	case double, single: // go on over lines
		p.escaped = false
		return
	case blockHeader:
		p.place, p.indenting = block, true
		return
	case block:
		p.indenting = true
		return
	}
	if p.dash { // a dash alone on its line
		p.node, p.dash = p.column-1, false
	}
	p.place = lineStart
}

// settled says where the next byte stands, once what was only possible so far has been decided by it being a value.
func (p *position) settled() place {
	switch {
	case p.place == block && p.indenting && p.column <= p.inner:
		return lineStart
	case p.place == singleQuote:
		return closed
	}
	return p.place
}

func (p *position) inBlock(c byte) {
	if !p.indenting || c == ' ' {
		return
	}
	p.indenting = false
	if p.column <= p.inner { // the block ended with the line before
		p.place = lineStart
		p.beginLine(c)
	}
}

// beginLine takes a byte before which there were only spaces, and dashes that begin items.
func (p *position) beginLine(c byte) {
	if p.dash {
		p.dash = false
		if c != ' ' { // it was the beginning of a scalar, like -1 or ---
			p.place = plain
			p.inPlain(c)
			return
		}
		p.node = p.column - 1
		return
	}
	switch c {
	case ' ', '\t':
		return
	case '-':
		p.dash = p.flow == 0
		if p.dash {
			return
		}
	case '|', '>': // of the dash before it
	default:
		p.node = p.column
	}
	p.begin(c)
}

// begin takes a byte with which a value may begin.
func (p *position) begin(c byte) {
	switch c {
	case ' ', '\t':
		if p.place == lineStart {
			return
		}
		p.place = valueStart
	case '"':
		p.place, p.escaped = double, false
	case '\'':
		p.place = single
	case '#':
		p.place = comment
	case '[', '{':
		p.flow++
		p.place = valueStart
	case ']', '}':
		p.flow = max(0, p.flow-1)
		p.place = closed
	case ',':
		p.place = valueStart
	case '|', '>':
		p.place = plain
		if p.flow == 0 {
			p.place, p.inner = blockHeader, p.node
		}
	default:
		p.place = plain
	}
}

func (p *position) inPlain(c byte) {
	switch {
	case p.prev == ':' && (c == ' ' || c == '\t'), p.flow > 0 && c == ',', p.place == closed && c == ':' && p.flow > 0:
		p.place = valueStart
	case (p.prev == ' ' || p.prev == '\t') && c == '#':
		p.place = comment
	case p.flow > 0 && (c == ']' || c == '}'):
		p.flow--
		p.place = closed
	case p.flow > 0 && (c == '[' || c == '{'):
		p.flow++
		p.place = valueStart
	}
}

func (p *position) inDouble(c byte) {
	switch {
	case p.escaped:
		p.escaped = false
	case c == '\\':
		p.escaped = true
	case c == '"':
		p.place = closed
	}
}
