"""Orders from files: CSV as people and shops export it, and as spreadsheets damage it.

    text         bytes → text: encodings, and files that are no text at all
    table        text → rows: delimiter, header, rows that cannot be parsed
    header       which column is which
    cells        what spreadsheets do to cells
    amounts      amounts in major units
    layout       what a layout of columns has to offer
    own          this project's own columns
    shops        orders of shops: the rows of an order, its items, its cards
    shopify, woocommerce, square
                 a shop's export each
    customers    rows of one file that would become one customer
    rejects      the file of the rejected rows
    importing    the import, and its dry run

A row becomes an order or is rejected with a reason that names its column and repeats nothing of its content.
"""
