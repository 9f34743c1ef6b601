package preemption

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// What programs write for the time of a checkpoint: see checkpoint_time in scavenger_api.times, which is tested against the
// same table (testdata/checkpoint_cases.json).
var (
	writtenTime = regexp.MustCompile(`^(\d{4})-?(\d\d)-?(\d\d)[Tt ](\d\d):?(\d\d)(?::?(\d\d)(?:[.,](\d{1,9})\d*)?)?` +
		`(?: ?(?:(?:[Zz]|UTC|GMT)|([+-]\d\d)(?::?(\d\d))?))?$`)
	epochSeconds      = regexp.MustCompile(`^(\d{10})(?:\.(\d{1,9})\d*)?$`)
	epochMilliseconds = regexp.MustCompile(`^(\d{10})(\d{3})$`)
)

// checkpointTime is the moment of a checkpoint as a program writes it; false for none, and for what cannot be read. A time
// without a zone is UTC, a leap second is the first second of the next minute.
func checkpointTime(text string) (time.Time, bool) {
	text = strings.TrimSpace(text)
	for _, pattern := range []*regexp.Regexp{epochSeconds, epochMilliseconds} {
		if found := pattern.FindStringSubmatch(text); found != nil {
			return time.Unix(int64(wholeNumber(found[1])), 0).UTC().Add(fractionOf(found[2])), true
		}
	}
	found := writtenTime.FindStringSubmatch(text)
	if found == nil {
		return time.Time{}, false
	}
	year, month, day := wholeNumber(found[1]), wholeNumber(found[2]), wholeNumber(found[3])
	hour, minute, second := wholeNumber(found[4]), wholeNumber(found[5]), wholeNumber(found[6])
	offset, minutes := wholeNumber(found[8]), wholeNumber(found[9])
	if hour > 23 || minute > 59 || second > 60 || offset > 23 || offset < -23 || minutes > 59 {
		return time.Time{}, false
	}
	date := time.Date(year, time.Month(month), day, hour, minute, 0, 0, time.UTC)
	if year < 1 || int(date.Month()) != month || date.Day() != day { // time.Date takes the 30th of February
		return time.Time{}, false
	}
	east := time.Duration(offset)*time.Hour + time.Duration(minutes)*time.Minute
	if strings.HasPrefix(found[8], "-") {
		east = time.Duration(offset)*time.Hour - time.Duration(minutes)*time.Minute
	}
	at := date.Add(time.Duration(second)*time.Second + fractionOf(found[7]) - east)
	return at, at.Year() >= 1 && at.Year() <= 9999
}

// wholeNumber is what digits say, with a sign or none; 0 for none.
func wholeNumber(digits string) int {
	value, _ := strconv.Atoi(digits)
	return value
}

// fractionOf is a decimal fraction of a second, in whole microseconds.
func fractionOf(digits string) time.Duration {
	return time.Duration(wholeNumber((digits + "000000")[:6])) * time.Microsecond
}
