package server

// frames parses the HTTP/2 frames (RFC 9113, 4.1) that a client sends, without keeping any of their
// payload, which gRPC reads. It only extracts the length of DATA frames, which carry messages.
type frames struct {
	preface int // remaining bytes of the client's connection preface
	header  [frameHeader]byte
	filled  int // bytes of header that have arrived
	payload int // remaining bytes of the current frame
}

const (
	frameHeader = 9
	// prefaceLength is the length of the connection preface, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".
	prefaceLength = 24
	dataFrame     = 0
)

// countData processes the next bytes of an HTTP/2 connection, which may begin and end inside a
// frame. It returns the number of non-empty DATA frames whose headers end in b (count), and the sum
// of their payload lengths (carried).
func (f *frames) countData(b []byte) (carried, count int) {
	for len(b) > 0 {
		if skip := min(len(b), f.preface); skip > 0 {
			f.preface -= skip
			b = b[skip:]
			continue
		}
		if skip := min(len(b), f.payload); skip > 0 {
			f.payload -= skip
			b = b[skip:]
			continue
		}
		n := copy(f.header[f.filled:], b)
		f.filled += n
		b = b[n:]
		if f.filled < frameHeader {
			return carried, count
		}
		f.filled = 0
		f.payload = int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
		if f.header[3] == dataFrame && f.payload > 0 {
			carried += f.payload
			count++
		}
	}
	return carried, count
}
