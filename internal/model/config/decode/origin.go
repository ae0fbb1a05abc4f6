package decode

import (
	"fmt"
	"strconv"
	"strings"
)

// Origin is the position of an object or a field in a file.
type Origin struct {
	// File is the path of the file, as its source names it.
	File string
	// Document is the number of the document in the file, and Line the line in the file, both from 1.
	Document, Line int
	// Column is the column of a field, from 1. It is 0 for the position of an object, and for an
	// error of which only the line is known.
	Column int
}

// String returns the position as it is in config.Meta and config.Problem: "file#document:line",
// with ":column" if that is known.
func (o Origin) String() string {
	text := fmt.Sprintf("%s#%d:%d", o.File, o.Document, o.Line)
	if o.Column > 0 {
		text += ":" + strconv.Itoa(o.Column)
	}
	return text
}

// ParseOrigin parses the result of [Origin.String]: FILE#DOCUMENT:LINE or
// FILE#DOCUMENT:LINE:COLUMN, with numbers from 1. It returns false and an empty Origin for any
// other text, such as the name of a source.
func ParseOrigin(text string) (o Origin, ok bool) {
	at := strings.LastIndexByte(text, '#')
	if at < 0 {
		return Origin{}, false
	}
	numbers := strings.Split(text[at+1:], ":")
	if len(numbers) < 2 || len(numbers) > 3 {
		return Origin{}, false
	}
	o.File = text[:at]
	for i, to := range []*int{&o.Document, &o.Line, &o.Column}[:len(numbers)] {
		n, err := strconv.Atoi(numbers[i])
		if err != nil || n < 1 {
			return Origin{}, false
		}
		*to = n
	}
	return o, true
}
