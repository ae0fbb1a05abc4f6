package document

import (
	"fmt"
	"regexp"
	"strings"
)

// CommandBlock is a block of commands of a document, fenced as "sh".
type CommandBlock struct {
	// Line is the line of its fence, from 1.
	Line int
	// Commands is its content.
	Commands string
	// Output is the content of the block fenced as "text" that follows it with nothing but text in
	// between, nil if none does.
	Output *string
}

// ParseCommands returns the blocks of commands of a Markdown text in their order. It returns an
// error for a fence that is not closed, and for a block "text" without commands before it.
func ParseCommands(text string) ([]CommandBlock, error) {
	var blocks []CommandBlock
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		language, ok := strings.CutPrefix(lines[i], "```")
		if !ok {
			continue
		}
		begin := i + 1
		for i++; i < len(lines) && lines[i] != "```"; i++ {
		}
		if i == len(lines) {
			return nil, fmt.Errorf("line %d: the block is not closed", begin)
		}
		content := strings.Join(lines[begin:i], "\n") + "\n"
		switch language {
		case "sh":
			blocks = append(blocks, CommandBlock{Line: begin, Commands: content})
		case "text":
			if len(blocks) == 0 || blocks[len(blocks)-1].Output != nil {
				return nil, fmt.Errorf("line %d: the output has no commands before it", begin)
			}
			blocks[len(blocks)-1].Output = &content
		}
	}
	return blocks, nil
}

// MatchesOutput reports whether an output is the expected one. Spaces at the ends of lines and
// empty lines do not count. "..." in the expected output matches any text, and alone in a line any
// number of lines.
func MatchesOutput(expected, got string) bool {
	var pattern strings.Builder
	pattern.WriteString(`\A`)
	for _, line := range outputLines(expected) {
		if strings.TrimSpace(line) == "..." {
			pattern.WriteString(`(.*\n)*?`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `.*`) + `\n`)
	}
	pattern.WriteString(`\z`)
	text := strings.Join(outputLines(got), "\n")
	if text != "" {
		text += "\n"
	}
	return regexp.MustCompile(pattern.String()).MatchString(text)
}

// outputLines returns the lines of an output that are not empty, without spaces at their ends.
func outputLines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \t\r\n"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
