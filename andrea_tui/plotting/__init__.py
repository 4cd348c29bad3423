"""Charts as text, in pure Python: from columns of numbers to rows of (text, style) runs. See `chart`."""
